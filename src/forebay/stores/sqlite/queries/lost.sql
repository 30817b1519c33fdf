-- Running tasks whose session has ended or is unknown, or whose attempt is overdue.
-- :most, :now. Reply: rows.Held, then whether the session is gone.
SELECT t.seq, t.id, t.claim_count, t.attempt_count, t.retry_count, t.reschedule_count, t.lost_count,
       t.available_at, t.cancel_requested_at, t.job_id, t.role, t.chunk_index, t.generation, t.tenant,
       t.session_id, t.page_start, t.page_end, s.id IS NULL
FROM tasks AS t
LEFT JOIN sessions AS s ON s.id = t.session_id AND s.ended_at IS NULL
WHERE t.status = 'running' AND (s.id IS NULL OR t.attempt_deadline_at <= :now)
LIMIT :most
