-- Adds pending tasks. :rows [id, kind, lane, tenant, role, job_id, chunk_index, generation, priority, flow,
-- idempotency_key, payload_hash, payload_blob, timeout_s, deadline_at, max_retries, max_reschedules, available_at,
-- wait_reason, requested_retry_count, page_start, page_end, tag, tags, claim_count], :payloads values, JSON text, one
-- for each, :now. No reply.
INSERT INTO tasks (
    id, kind, lane, tenant, role, job_id, chunk_index, generation, priority, flow,
    idempotency_key, payload_hash, payload_blob, timeout_s, deadline_at, max_retries, max_reschedules,
    available_at, wait_reason, requested_retry_count, page_start, page_end, tag, tags, claim_count, status, created_at
)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14, value ->> 15,
       value ->> 16, value ->> 17, value ->> 18, value ->> 19, value ->> 20, value ->> 21, value ->> 22,
       value ->> 23, value ->> 24,
       'pending', :now
FROM jsonb_each(:rows);

-- They got the next numbers in turn.
INSERT INTO payloads
SELECT (SELECT max(seq) FROM tasks) - json_array_length(:payloads) + 1 + key, value
FROM json_each(:payloads)
