-- Jobs that ended with a status longer ago than :age_s, and have nothing open, locked. :status, :age_s, :most, :now.
-- Reply: id.
SELECT j.id
FROM forebay_jobs AS j
WHERE j.finished_at < :now - :age_s::float8 AND j.finished_at IS NOT NULL AND j.status = :status
  AND NOT EXISTS (SELECT 1 FROM forebay_tasks AS t WHERE t.job_id = j.id AND t.status IN ('pending', 'running'))
ORDER BY j.finished_at
LIMIT :most
FOR UPDATE OF j SKIP LOCKED
