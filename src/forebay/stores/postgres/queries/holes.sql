-- Chunks of a job that have no result. :job_id. Reply: chunk_index, error_class, error_text.
SELECT chunk_index, error_class, error_text
FROM forebay_tasks
WHERE job_id = :job_id AND role = 'chunk' AND status IN ('failed', 'canceled')
