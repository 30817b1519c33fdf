-- All tasks of jobs, as they were made, for this transaction alone: locked in their order. :ids values.
-- Reply: rows.TASK.
-- Who has a job has the claims of its tasks: only a promotion may come between.
SELECT t.id, t.kind, t.lane, t.tenant, CASE WHEN r.seq IS NULL THEN t.status ELSE 'running' END, t.role, t.job_id,
       t.chunk_index, t.generation, t.priority, t.flow, t.tag, t.tags, t.idempotency_key, t.payload_hash,
       t.payload_blob, t.timeout_s, t.deadline_at, t.max_retries, t.max_reschedules, t.created_at, t.available_at,
       CASE WHEN r.seq IS NULL THEN t.wait_reason END, t.retry_count, t.reschedule_count, t.lost_count,
       coalesce(r.token, t.claim_count), t.attempt_count, coalesce(r.session_id, t.session_id),
       coalesce(r.exchange_n, t.exchange_n), coalesce(r.claimed_at, t.claimed_at),
       coalesce(r.attempt_deadline_at, t.attempt_deadline_at), t.finished_at, t.cancel_requested_at, t.error_class,
       t.error_text, t.result_blob, t.requested_retry_count, t.page_start, t.page_end
FROM forebay_tasks AS t
LEFT JOIN forebay_running AS r ON r.seq = t.seq
WHERE t.job_id = ANY (:ids::text[])
ORDER BY t.seq
FOR UPDATE OF t
