-- Jobs by id, for this transaction alone. :ids values. Reply: rows.JOB_NAMES.
SELECT j.id, pipeline, tenant, status, generation, created_at, document, label, idempotency_key, payload_hash, tags,
       allow_holes, merge_json, chunk_count, open_count, running_count, completed_count, failed_count,
       canceled_count, event_count, started_at, finished_at, cancel_requested_at, merge_id, error_class, error_text,
       callback_json
FROM json_each(:ids) AS asked
CROSS JOIN jobs AS j ON j.id = asked.value
