-- Jobs with a tag, newest first; a line whose argument is not given is left out. :status, :kind a pipeline, :tenant, :tag,
-- :after a seq, :most. Reply: rows.JOB_NAMES, seq.
SELECT j.id, j.pipeline, j.tenant, j.status, j.generation, j.created_at, j.document, j.label, j.idempotency_key, j.payload_hash, j.tags,
       j.allow_holes, j.merge_json, j.chunk_count, j.open_count, j.running_count, j.completed_count, j.failed_count,
       j.canceled_count, j.event_count, j.started_at, j.finished_at, j.cancel_requested_at, j.merge_id, j.error_class, j.error_text,
       j.callback_json, j.seq
FROM forebay_job_tags AS own
CROSS JOIN LATERAL (SELECT j.* FROM forebay_jobs AS j WHERE j.seq = own.seq OFFSET 0) AS j
WHERE true
  AND own.tag = :tag
  AND j.status = :status
  AND j.pipeline = :kind
  AND j.tenant = :tenant
  AND own.seq < :after
ORDER BY own.seq DESC
LIMIT :most
