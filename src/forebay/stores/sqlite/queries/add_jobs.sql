-- Adds jobs. :rows [rows.JOB_NAMES …]. No reply.
INSERT INTO jobs (
    id, pipeline, tenant, status, generation, created_at, document, label, idempotency_key, payload_hash, tags,
    allow_holes, merge_json, chunk_count, open_count, running_count, completed_count, failed_count,
    canceled_count, event_count, started_at, finished_at, cancel_requested_at, merge_id, error_class, error_text,
    callback_json
)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14, value ->> 15,
       value ->> 16, value ->> 17, value ->> 18, value ->> 19, value ->> 20, value ->> 21, value ->> 22,
       value ->> 23, value ->> 24, value ->> 25, value ->> 26
FROM jsonb_each(:rows)
