-- What `lost` would find, only looked at. :most, :now. Reply: job_id or NULL.
SELECT t.job_id
FROM forebay_running AS r
LEFT JOIN forebay_sessions AS s ON s.id = r.session_id AND s.ended_at IS NULL
CROSS JOIN LATERAL (SELECT t.job_id FROM forebay_tasks AS t WHERE t.seq = r.seq OFFSET 0) AS t
WHERE s.id IS NULL OR r.attempt_deadline_at <= :now
LIMIT :most
