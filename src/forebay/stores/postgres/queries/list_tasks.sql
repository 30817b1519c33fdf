-- Tasks, newest first; a line whose argument is not given is left out. :after a seq, :most. Reply: rows.TASK, seq.
SELECT id, kind, lane, tenant, status, role, job_id, chunk_index, generation, priority, flow, tag, tags,
       idempotency_key, payload_hash, payload_blob, timeout_s, deadline_at, max_retries, max_reschedules,
       created_at, available_at, wait_reason, retry_count, reschedule_count, lost_count, claim_count,
       attempt_count, session_id, exchange_n, claimed_at, attempt_deadline_at, finished_at,
       cancel_requested_at, error_class, error_text, result_blob, requested_retry_count, page_start, page_end, seq
FROM forebay_present
WHERE true
  AND seq < :after
ORDER BY seq DESC
LIMIT :most
