-- Adds jobs. :rows [rows.JOB_NAMES …]. No reply.
WITH added AS (
    INSERT INTO forebay_jobs (
        id, pipeline, tenant, status, generation, created_at, document, label, idempotency_key, payload_hash, tags,
        allow_holes, merge_json, chunk_count, open_count, running_count, completed_count, failed_count, canceled_count,
        event_count, started_at, finished_at, cancel_requested_at, merge_id, error_class, error_text,
        callback_json
    )
    SELECT *
    FROM unnest(
        :rows.0::text[], :rows.1::text[], :rows.2::text[], :rows.3::text[], :rows.4::bigint[], :rows.5::float8[],
        :rows.6::text[], :rows.7::text[], :rows.8::text[], :rows.9::text[], :rows.10::text[], :rows.11::boolean[],
        :rows.12::text[], :rows.13::bigint[], :rows.14::bigint[], :rows.15::bigint[], :rows.16::bigint[],
        :rows.17::bigint[], :rows.18::bigint[], :rows.19::bigint[], :rows.20::float8[], :rows.21::float8[],
        :rows.22::float8[], :rows.23::text[], :rows.24::text[], :rows.25::text[], :rows.26::text[]
    )
    RETURNING seq, tags
)
INSERT INTO forebay_job_tags
SELECT DISTINCT g.tag, a.seq
FROM added AS a
CROSS JOIN LATERAL jsonb_array_elements_text(a.tags::jsonb) AS g (tag)
WHERE a.tags IS NOT NULL
