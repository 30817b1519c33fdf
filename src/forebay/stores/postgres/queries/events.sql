-- Events of a job. :job_id, :after a number, :most. Reply: number, at, name, fields as JSON text.
SELECT number, at, name, fields
FROM forebay_events
WHERE job_id = :job_id AND number > :after
ORDER BY number
LIMIT :most
