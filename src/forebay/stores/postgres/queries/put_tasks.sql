-- Rewrites tasks after an action of a person. :rows [id, status, generation, tag, available_at, wait_reason,
-- retry_count, reschedule_count, lost_count, finished_at, cancel_requested_at, error_class, error_text,
-- result_blob]. Those that are open again have no result any more. No reply.
UPDATE forebay_tasks AS t
SET status = r.status,
    generation = r.generation,
    tag = r.tag,
    available_at = r.available_at,
    wait_reason = r.wait_reason,
    retry_count = r.retry_count,
    reschedule_count = r.reschedule_count,
    lost_count = r.lost_count,
    finished_at = r.finished_at,
    cancel_requested_at = r.cancel_requested_at,
    error_class = r.error_class,
    error_text = r.error_text,
    result_blob = r.result_blob,
    result = CASE WHEN r.status <> 'pending' THEN t.result END
FROM unnest(
    :rows.0::text[], :rows.1::text[], :rows.2::bigint[], :rows.3::bigint[], :rows.4::float8[], :rows.5::text[],
    :rows.6::bigint[], :rows.7::bigint[], :rows.8::bigint[], :rows.9::float8[], :rows.10::float8[],
    :rows.11::text[], :rows.12::text[], :rows.13::text[]
) AS r (
    id, status, generation, tag, available_at, wait_reason, retry_count, reschedule_count, lost_count, finished_at,
    cancel_requested_at, error_class, error_text, result_blob
)
CROSS JOIN LATERAL (SELECT t.ctid FROM forebay_tasks AS t WHERE t.id = r.id OFFSET 0) AS own
WHERE t.ctid = own.ctid
