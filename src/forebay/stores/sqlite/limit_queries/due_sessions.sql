-- Reads sessions that a step has to look at, those that are due the longest first.
-- Arguments: limit, now, the session that asks, at most so many. Reply: sessions.
SELECT session_id, ends_at, due_at, request_number, grant_number, next_call_id, label, open_call_count,
    unconfirmed FROM limit_sessions
WHERE limit_id = ? AND due_at <= ? AND session_id <> ? ORDER BY due_at, session_id LIMIT ?
