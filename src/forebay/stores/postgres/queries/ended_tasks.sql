-- Lone tasks that ended with a status longer ago than :age_s, locked. :status, :age_s, :most, :now. Reply: id.
SELECT id
FROM forebay_tasks
WHERE finished_at < :now - :age_s::float8 AND finished_at IS NOT NULL AND job_id IS NULL AND status = :status
ORDER BY finished_at
LIMIT :most
FOR UPDATE SKIP LOCKED
