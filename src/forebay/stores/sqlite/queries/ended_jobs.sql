-- Jobs that ended with a status longer ago than :age_s, and have nothing open. :status, :age_s, :most, :now. Reply: id.
SELECT id
FROM jobs
WHERE status = :status AND finished_at < :now - :age_s
  AND NOT EXISTS (SELECT 1 FROM tasks WHERE job_id = jobs.id AND status IN ('pending', 'running'))
LIMIT :most
