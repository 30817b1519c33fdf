-- Rewrites tasks after an action of a person. :rows [id, status, generation, tag, available_at, wait_reason,
-- retry_count, reschedule_count, lost_count, finished_at, cancel_requested_at, error_class, error_text,
-- result_blob, requested_retry_count]. Those that are open again have no result any more. No reply.
WITH changed AS (
    UPDATE forebay_tasks AS t
    -- What runs goes on, by its claim; its own row says so when that ends.
    SET status = CASE WHEN r.status = 'running' THEN t.status ELSE r.status END,
        generation = r.generation,
        tag = r.tag,
        available_at = r.available_at,
        later_at = CASE WHEN r.status = 'pending' AND r.tag IS NULL THEN r.available_at END,
        wait_reason = r.wait_reason,
        retry_count = r.retry_count,
        reschedule_count = r.reschedule_count,
        lost_count = r.lost_count,
        finished_at = r.finished_at,
        cancel_requested_at = r.cancel_requested_at,
        error_class = r.error_class,
        error_text = r.error_text,
        result_blob = r.result_blob,
        requested_retry_count = r.requested_retry_count,
        result = CASE WHEN r.status <> 'pending' THEN t.result END
    FROM unnest(
        :rows.0::text[], :rows.1::text[], :rows.2::bigint[], :rows.3::bigint[], :rows.4::float8[], :rows.5::text[],
        :rows.6::bigint[], :rows.7::bigint[], :rows.8::bigint[], :rows.9::float8[], :rows.10::float8[],
        :rows.11::text[], :rows.12::text[], :rows.13::text[], :rows.14::bigint[]
    ) AS r (
        id, status, generation, tag, available_at, wait_reason, retry_count, reschedule_count, lost_count, finished_at,
        cancel_requested_at, error_class, error_text, result_blob, requested_retry_count
    )
    CROSS JOIN LATERAL (SELECT t.ctid FROM forebay_tasks AS t WHERE t.id = r.id OFFSET 0) AS own
    WHERE t.ctid = own.ctid
    RETURNING t.seq, t.kind, t.lane, t.priority, t.tag, t.available_at, t.flow, t.job_id, t.role, r.status
), left_line AS (
    DELETE FROM forebay_ready
    WHERE seq = ANY (ARRAY(SELECT seq FROM changed WHERE status <> 'pending' OR tag IS NULL))
)
INSERT INTO forebay_ready
SELECT seq, kind, lane, priority, tag, available_at, flow, job_id, role
FROM changed
WHERE status = 'pending' AND tag IS NOT NULL
ON CONFLICT (seq) DO UPDATE SET available_at = excluded.available_at, tag = excluded.tag
