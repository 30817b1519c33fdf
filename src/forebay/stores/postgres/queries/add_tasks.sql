-- Adds pending tasks. :rows [id, kind, lane, tenant, role, job_id, chunk_index, generation, priority, flow, tag, tags,
-- idempotency_key, payload_hash, payload_blob, timeout_s, deadline_at, max_retries, max_reschedules, available_at,
-- wait_reason, retry_count, claim_count], :payloads rows [JSON text], one for each, :now. No reply.
WITH added AS (
    INSERT INTO forebay_tasks (
        id, kind, lane, tenant, role, job_id, chunk_index, generation, priority, flow, tag, tags, idempotency_key,
        payload_hash, payload_blob, timeout_s, deadline_at, max_retries, max_reschedules, available_at, wait_reason,
        retry_count, claim_count, payload, status, created_at, later_at
    )
    SELECT r.*, 'pending', :now, CASE WHEN r.tag IS NULL THEN r.available_at END
    FROM unnest(
        :rows.0::text[], :rows.1::text[], :rows.2::text[], :rows.3::text[], :rows.4::text[], :rows.5::text[],
        :rows.6::bigint[], :rows.7::bigint[], :rows.8::integer[], :rows.9::text[], :rows.10::bigint[],
        :rows.11::text[], :rows.12::text[], :rows.13::text[], :rows.14::text[], :rows.15::float8[],
        :rows.16::float8[], :rows.17::bigint[], :rows.18::bigint[], :rows.19::float8[], :rows.20::text[],
        :rows.21::bigint[], :rows.22::bigint[], :payloads.0::text[]
    ) AS r (
        id, kind, lane, tenant, role, job_id, chunk_index, generation, priority, flow, tag, tags, idempotency_key,
        payload_hash, payload_blob, timeout_s, deadline_at, max_retries, max_reschedules, available_at, wait_reason,
        retry_count, claim_count, payload
    )
    RETURNING seq, kind, lane, priority, tag, available_at, flow, job_id, role
)
INSERT INTO forebay_ready
SELECT seq, kind, lane, priority, tag, available_at, flow, job_id, role FROM added WHERE tag IS NOT NULL
