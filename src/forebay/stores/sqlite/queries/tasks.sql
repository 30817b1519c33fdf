-- Tasks by id, in no order. :ids values. Reply: rows.TASK, payload, result, progress or NULL.
SELECT id, kind, lane, tenant, status, role, job_id, chunk_index, generation, priority, flow, tag, tags,
       idempotency_key, payload_hash, payload_blob, timeout_s, deadline_at, max_retries, max_reschedules,
       created_at, available_at, wait_reason, retry_count, reschedule_count, lost_count, claim_count,
       attempt_count, session_id, exchange_n, claimed_at, attempt_deadline_at, finished_at,
       cancel_requested_at, error_class, error_text, result_blob,
       requested_retry_count, page_start, page_end,
       (SELECT payload FROM payloads WHERE task_seq = seq), (SELECT result FROM results WHERE task_seq = seq),
       (SELECT s.progress -> tasks.id FROM sessions AS s WHERE s.id = session_id AND tasks.status = 'running')
FROM tasks
WHERE id IN (SELECT value FROM json_each(:ids))
