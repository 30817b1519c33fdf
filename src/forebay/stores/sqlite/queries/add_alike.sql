-- Adds pending tasks that differ by their ids, payloads and tags alone; the tag of the first is :tag, or NULL for all, and
-- rises by :step from one to the next. :ids values, :payloads values, JSON text, :kind, :lane,
-- :tenant, :role, :job_id, :chunk_index, :generation, :priority, :flow, :idempotency_key, :payload_hash, :payload_blob,
-- :timeout_s, :deadline_at, :max_retries, :max_reschedules, :available_at, :wait_reason, :requested_retry_count,
-- :page_start, :page_end, :tag, :tags, :claim_count, :now. No reply.
INSERT INTO tasks (
    id, kind, lane, tenant, role, job_id, chunk_index, generation, priority, flow, idempotency_key, payload_hash,
    payload_blob, timeout_s, deadline_at, max_retries, max_reschedules, available_at, wait_reason,
    requested_retry_count, page_start, page_end, tag, tags, claim_count, status, created_at
)
SELECT value, :kind, :lane, :tenant, :role, :job_id, :chunk_index, :generation, :priority, :flow, :idempotency_key,
       :payload_hash, :payload_blob, :timeout_s, :deadline_at, :max_retries, :max_reschedules, :available_at,
       :wait_reason, :requested_retry_count, :page_start, :page_end, :tag + key * :step, :tags,
       :claim_count, 'pending', :now
FROM json_each(:ids);

-- They got the next numbers in turn.
INSERT INTO payloads
SELECT (SELECT max(seq) FROM tasks) - json_array_length(:payloads) + 1 + key, value
FROM json_each(:payloads)
