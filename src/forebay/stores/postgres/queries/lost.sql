-- Running tasks whose session has ended or is unknown, or whose attempt is overdue, locked; but for those that
-- another transaction has. :most, :now. Reply: rows.Held, then whether the session is gone.
SELECT t.seq, t.id, r.token, t.attempt_count, t.retry_count, t.reschedule_count, t.lost_count, t.available_at,
       t.cancel_requested_at, t.job_id, t.role, t.chunk_index, t.generation, t.tenant, r.session_id,
       t.page_start, t.page_end, s.id IS NULL
FROM forebay_running AS r
LEFT JOIN forebay_sessions AS s ON s.id = r.session_id AND s.ended_at IS NULL
CROSS JOIN LATERAL (
    SELECT t.*
    FROM forebay_tasks AS t
    WHERE t.seq = r.seq AND t.claim_count = r.token - 1 AND t.status = 'pending'
    FOR UPDATE SKIP LOCKED
) AS t
WHERE s.id IS NULL OR r.attempt_deadline_at <= :now
LIMIT :most
