-- Reads the session that is due next after an instant.
-- Arguments: limit, the session that asks, the instant. Reply: a session, or none.
SELECT session_id, ends_at, due_at, request_number, grant_number, next_call_id, label, open_call_count,
    unconfirmed, place
FROM limit_sessions WHERE limit_id = ?1 AND due_at > ?3 AND session_id <> ?2 ORDER BY due_at LIMIT 1
