-- Stores what changed of jobs. :rows [rows.JOB_NAMES …]. No reply.
UPDATE forebay_jobs AS j
SET status = r.status,
    generation = r.generation,
    chunk_count = r.chunk_count,
    open_count = r.open_count,
    running_count = r.running_count,
    completed_count = r.completed_count,
    failed_count = r.failed_count,
    canceled_count = r.canceled_count,
    event_count = r.event_count,
    started_at = r.started_at,
    finished_at = r.finished_at,
    cancel_requested_at = r.cancel_requested_at,
    merge_id = r.merge_id,
    error_class = r.error_class,
    error_text = r.error_text
FROM unnest(
    :rows.0::text[], :rows.3::text[], :rows.4::bigint[], :rows.13::bigint[], :rows.14::bigint[], :rows.15::bigint[],
    :rows.16::bigint[], :rows.17::bigint[], :rows.18::bigint[], :rows.19::bigint[], :rows.20::float8[],
    :rows.21::float8[], :rows.22::float8[], :rows.23::text[], :rows.24::text[], :rows.25::text[]
) AS r (
    id, status, generation, chunk_count, open_count, running_count, completed_count, failed_count, canceled_count,
    event_count, started_at, finished_at, cancel_requested_at, merge_id, error_class, error_text
)
CROSS JOIN LATERAL (SELECT j.ctid FROM forebay_jobs AS j WHERE j.id = r.id OFFSET 0) AS own
WHERE j.ctid = own.ctid
