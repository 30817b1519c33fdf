-- Lone tasks that ended with a status longer ago than :age_s. :status, :age_s, :most, :now. Reply: id.
SELECT id FROM tasks WHERE status = :status AND finished_at < :now - :age_s AND job_id IS NULL LIMIT :most
