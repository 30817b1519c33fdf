-- Tasks of a session that are to be canceled. :session_id. Reply: task id.
SELECT id
FROM forebay_tasks
WHERE status = 'running' AND session_id = :session_id AND cancel_requested_at IS NOT NULL
