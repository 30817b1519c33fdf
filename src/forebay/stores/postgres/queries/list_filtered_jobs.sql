-- Jobs of a status, pipeline or tenant, newest first; a line whose argument is not given is left out. :status, :kind a pipeline, :tenant, :after
-- a seq, :most. Reply: rows.JOB_NAMES, seq.
SELECT id, pipeline, tenant, status, generation, created_at, document, label, idempotency_key, payload_hash, tags,
       allow_holes, merge_json, chunk_count, open_count, running_count, completed_count, failed_count,
       canceled_count, event_count, started_at, finished_at, cancel_requested_at, merge_id, error_class, error_text,
       callback_json, seq
FROM forebay_jobs
WHERE true
  AND status = :status
  AND pipeline = :kind
  AND tenant = :tenant
  AND seq + 0 < :after
ORDER BY seq + 0 DESC
LIMIT :most
