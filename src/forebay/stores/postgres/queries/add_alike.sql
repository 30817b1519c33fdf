-- Adds pending tasks that differ by their ids, payloads and tags alone; the tag of the first is :tag, or NULL for all, and
-- rises by :step from one to the next. :ids values, :payloads values, JSON text, :kind, :lane,
-- :tenant, :role, :job_id, :chunk_index, :generation, :priority, :flow, :idempotency_key, :payload_hash, :payload_blob,
-- :timeout_s, :deadline_at, :max_retries, :max_reschedules, :available_at, :wait_reason, :requested_retry_count,
-- :page_start, :page_end, :tag, :tags, :claim_count, :now. No reply.
WITH added AS (
    INSERT INTO forebay_tasks (
        id, payload, kind, lane, tenant, role, job_id, chunk_index, generation, priority, flow, idempotency_key,
        payload_hash, payload_blob, timeout_s, deadline_at, max_retries, max_reschedules, available_at, wait_reason,
        requested_retry_count, page_start, page_end, tag, tags, claim_count, status, created_at, later_at
    )
    SELECT r.id, r.payload, :kind::text, :lane::text, :tenant::text, :role::text, :job_id::text, :chunk_index::bigint,
           :generation::bigint, :priority::integer, :flow::text, :idempotency_key::text, :payload_hash::text,
           :payload_blob::text, :timeout_s::float8, :deadline_at::float8, :max_retries::bigint,
           :max_reschedules::bigint, :available_at::float8, :wait_reason::text, :requested_retry_count::bigint,
           :page_start::bigint, :page_end::bigint, :tag::bigint + (r.place - 1) * :step::bigint, :tags::text,
           :claim_count::bigint, 'pending', :now, CASE WHEN :tag::bigint IS NULL THEN :available_at::float8 END
    FROM unnest(:ids::text[], :payloads::text[]) WITH ORDINALITY AS r (id, payload, place)
    RETURNING seq, tag
), tagged AS (
    INSERT INTO forebay_task_tags
    SELECT DISTINCT g.tag, a.seq
    FROM added AS a
    CROSS JOIN LATERAL jsonb_array_elements_text(:tags::text::jsonb) AS g (tag)
    WHERE :tags::text IS NOT NULL
)
INSERT INTO forebay_ready
SELECT seq, :kind::text, :lane::text, :priority::integer, tag, :available_at::float8, :flow::text, :job_id::text,
       :role::text
FROM added
WHERE tag IS NOT NULL
