-- Claims tasks for a session. :chosen rows [seq, grace_s], best first, :most of them, :session_id, :n, :now.
-- Nobody else takes them: all that are chosen are claimed. Reply: rows.TASK, payload, seq; in no certain order.
UPDATE tasks
SET status = 'running',
    claim_count = claim_count + 1,
    session_id = :session_id,
    exchange_n = :n,
    claimed_at = :now,
    attempt_deadline_at = :now + timeout_s + (chosen.value ->> 1),
    wait_reason = NULL
FROM jsonb_each(:chosen) AS chosen
WHERE tasks.seq = chosen.value ->> 0 AND chosen.key < :most
RETURNING id, kind, lane, tenant, status, role, job_id, chunk_index, generation, priority, flow, tag, tags,
          idempotency_key, payload_hash, payload_blob, timeout_s, deadline_at, max_retries, max_reschedules,
          created_at, available_at, wait_reason, retry_count, reschedule_count, lost_count, claim_count,
          attempt_count, session_id, exchange_n, claimed_at, attempt_deadline_at, finished_at,
          cancel_requested_at, error_class, error_text, result_blob, requested_retry_count, page_start, page_end,
          (SELECT payload FROM payloads WHERE task_seq = tasks.seq), seq
