-- Tasks that wait, newest first; a line whose argument is not given is left out. :after a seq, :most.
-- Reply: rows.TASK, seq.
-- Read from those that are ready or delayed: tasks that have ended cost nothing.
SELECT p.id, p.kind, p.lane, p.tenant, p.status, p.role, p.job_id, p.chunk_index, p.generation, p.priority, p.flow,
       p.tag, p.tags, p.idempotency_key, p.payload_hash, p.payload_blob, p.timeout_s, p.deadline_at, p.max_retries,
       p.max_reschedules, p.created_at, p.available_at, p.wait_reason, p.retry_count, p.reschedule_count,
       p.lost_count, p.claim_count, p.attempt_count, p.session_id, p.exchange_n, p.claimed_at,
       p.attempt_deadline_at, p.finished_at, p.cancel_requested_at, p.error_class, p.error_text, p.result_blob,
       p.requested_retry_count, p.page_start, p.page_end, p.seq
FROM (
    (
        SELECT seq
        FROM forebay_ready
        WHERE true
          AND seq < :after
        ORDER BY seq DESC
        LIMIT :most
    )
    UNION ALL
    (
        SELECT seq
        FROM forebay_tasks
        WHERE later_at IS NOT NULL
          AND seq < :after
        ORDER BY seq DESC
        LIMIT :most
    )
    ORDER BY seq DESC
    LIMIT :most
) AS own
CROSS JOIN LATERAL (SELECT p.* FROM forebay_present AS p WHERE p.seq = own.seq OFFSET 0) AS p
ORDER BY own.seq DESC
