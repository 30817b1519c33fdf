-- Lone tasks that ended with a status longer ago than :age_s, locked. :status, :age_s, :most, :now. Reply: id.
SELECT id
FROM forebay_tasks
WHERE finished_at < :now - :age_s::float8 AND job_id IS NULL AND status = :status
LIMIT :most
FOR UPDATE SKIP LOCKED
