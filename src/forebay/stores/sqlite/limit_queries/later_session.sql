-- Reads the session that is due next.
-- Arguments: limit, now, the session that asks. Reply: a session, or none.
SELECT session_id, ends_at, due_at, request_number, grant_number, next_call_id, label, open_call_count,
    unconfirmed FROM limit_sessions
WHERE limit_id = ? AND due_at > ? AND session_id <> ? ORDER BY due_at LIMIT 1
