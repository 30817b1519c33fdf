-- Chunks of a job that have no result. :job_id. Reply: rollup.Hole.
SELECT chunk_index, error_class, error_text, page_start, page_end
FROM forebay_tasks
WHERE job_id = :job_id AND role = 'chunk' AND status IN ('failed', 'canceled')
