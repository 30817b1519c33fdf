-- Adds pending tasks. :rows [id, kind, lane, tenant, role, job_id, chunk_index, generation, priority, flow,
-- idempotency_key, payload_hash, payload_blob, timeout_s, deadline_at, max_retries, max_reschedules, available_at,
-- wait_reason, requested_retry_count, page_start, page_end, tag, tags, claim_count], :payloads values, JSON text, one
-- for each, :now. No reply.
WITH added AS (
    INSERT INTO forebay_tasks (
        id, kind, lane, tenant, role, job_id, chunk_index, generation, priority, flow, idempotency_key,
        payload_hash, payload_blob, timeout_s, deadline_at, max_retries, max_reschedules, available_at, wait_reason,
        requested_retry_count, page_start, page_end, tag, tags, claim_count, payload, status, created_at, later_at
    )
    SELECT r.*, 'pending', :now, CASE WHEN r.tag IS NULL THEN r.available_at END
    FROM unnest(
        :rows.0::text[], :rows.1::text[], :rows.2::text[], :rows.3::text[], :rows.4::text[], :rows.5::text[],
        :rows.6::bigint[], :rows.7::bigint[], :rows.8::integer[], :rows.9::text[], :rows.10::text[], :rows.11::text[],
        :rows.12::text[], :rows.13::float8[], :rows.14::float8[], :rows.15::bigint[], :rows.16::bigint[],
        :rows.17::float8[], :rows.18::text[], :rows.19::bigint[], :rows.20::bigint[], :rows.21::bigint[],
        :rows.22::bigint[], :rows.23::text[], :rows.24::bigint[], :payloads::text[]
    ) AS r (
        id, kind, lane, tenant, role, job_id, chunk_index, generation, priority, flow, idempotency_key,
        payload_hash, payload_blob, timeout_s, deadline_at, max_retries, max_reschedules, available_at, wait_reason,
        requested_retry_count, page_start, page_end, tag, tags, claim_count, payload
    )
    RETURNING seq, kind, lane, priority, tag, available_at, flow, job_id, role, tags
), tagged AS (
    INSERT INTO forebay_task_tags
    SELECT DISTINCT g.tag, a.seq
    FROM added AS a
    CROSS JOIN LATERAL jsonb_array_elements_text(a.tags::jsonb) AS g (tag)
    WHERE a.tags IS NOT NULL
)
INSERT INTO forebay_ready
SELECT seq, kind, lane, priority, tag, available_at, flow, job_id, role FROM added WHERE tag IS NOT NULL
