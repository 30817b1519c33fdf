-- As `jobs`, without those that another transaction has. :ids values. Reply: rows.JOB_NAMES.
SELECT id, pipeline, tenant, status, generation, created_at, document, label, idempotency_key, payload_hash, tags,
       allow_holes, merge_json, chunk_count, open_count, running_count, completed_count, failed_count,
       canceled_count, event_count, started_at, finished_at, cancel_requested_at, merge_id, error_class, error_text,
       callback_json
FROM forebay_jobs
WHERE id = ANY (:ids::text[])
ORDER BY id
FOR UPDATE SKIP LOCKED
