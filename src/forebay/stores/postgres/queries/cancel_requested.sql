-- Tasks of a session that are to be canceled. :session_id. Reply: task id.
SELECT t.id
FROM forebay_running AS r
CROSS JOIN LATERAL (
    SELECT t.id FROM forebay_tasks AS t WHERE t.seq = r.seq AND t.cancel_requested_at IS NOT NULL OFFSET 0
) AS t
WHERE r.session_id = :session_id
