-- Tasks of a job that wait, oldest first; a line whose argument is not given is left out. :kind, :tenant, :job_id, :role,
-- :tag, :after a seq, :most. Reply: rows.TASK, seq.
-- Whole rows are read for the page alone: the job may have many tasks that have ended.
SELECT p.id, p.kind, p.lane, p.tenant, p.status, p.role, p.job_id, p.chunk_index, p.generation, p.priority, p.flow,
       p.tag, p.tags, p.idempotency_key, p.payload_hash, p.payload_blob, p.timeout_s, p.deadline_at, p.max_retries,
       p.max_reschedules, p.created_at, p.available_at, p.wait_reason, p.retry_count, p.reschedule_count,
       p.lost_count, p.claim_count, p.attempt_count, p.session_id, p.exchange_n, p.claimed_at,
       p.attempt_deadline_at, p.finished_at, p.cancel_requested_at, p.error_class, p.error_text, p.result_blob,
       p.requested_retry_count, p.page_start, p.page_end, p.seq
FROM (
    SELECT t.seq
    FROM forebay_tasks AS t
    WHERE t.status = 'pending'
      AND t.kind = :kind
      AND t.tenant = :tenant
      AND t.job_id = :job_id
      AND t.role = :role
      AND t.tags::jsonb ? :tag
      AND t.seq > :after
      AND NOT EXISTS (SELECT 1 FROM forebay_running AS r WHERE r.seq = t.seq)
    ORDER BY t.seq ASC
    LIMIT :most
) AS own
CROSS JOIN LATERAL (SELECT p.* FROM forebay_present AS p WHERE p.seq = own.seq OFFSET 0) AS p
ORDER BY own.seq ASC
