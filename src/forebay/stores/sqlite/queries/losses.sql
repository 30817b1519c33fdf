-- What `lost` would find, only looked at. :most, :now. Reply: job_id or NULL.
SELECT t.job_id
FROM tasks AS t
LEFT JOIN sessions AS s ON s.id = t.session_id AND s.ended_at IS NULL
WHERE t.status = 'running' AND (s.id IS NULL OR t.attempt_deadline_at <= :now)
LIMIT :most
