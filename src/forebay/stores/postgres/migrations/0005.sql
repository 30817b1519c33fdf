-- Retries that people asked for, counted apart from the task's own; and the pages of a chunk.
ALTER TABLE forebay_tasks
    ADD COLUMN requested_retry_count bigint NOT NULL DEFAULT 0,
    ADD COLUMN page_start bigint,
    ADD COLUMN page_end bigint;

CREATE OR REPLACE VIEW forebay_present AS
SELECT t.seq, t.id, t.kind, t.lane, t.tenant, CASE WHEN r.seq IS NULL THEN t.status ELSE 'running' END AS status, t.role,
       t.job_id, t.chunk_index, t.generation, t.priority, t.flow, t.tag, t.tags, t.idempotency_key, t.payload_hash,
       t.payload_blob, t.timeout_s, t.deadline_at, t.max_retries, t.max_reschedules, t.created_at, t.available_at,
       CASE WHEN r.seq IS NULL THEN t.wait_reason END AS wait_reason, t.retry_count, t.reschedule_count, t.lost_count,
       coalesce(r.token, t.claim_count) AS claim_count, t.attempt_count,
       coalesce(r.session_id, t.session_id) AS session_id, coalesce(r.exchange_n, t.exchange_n) AS exchange_n,
       coalesce(r.claimed_at, t.claimed_at) AS claimed_at,
       coalesce(r.attempt_deadline_at, t.attempt_deadline_at) AS attempt_deadline_at, t.finished_at,
       t.cancel_requested_at, t.error_class, t.error_text, t.result_blob, t.payload, t.result,
       t.requested_retry_count, t.page_start, t.page_end
FROM forebay_tasks AS t
LEFT JOIN forebay_running AS r ON r.seq = t.seq;
