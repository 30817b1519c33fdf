-- Reads sessions that a step has to look at, those that are due the longest first.
-- Arguments: limit, the session that asks, now, at most so many, after which instant. Reply: sessions.
SELECT session_id, ends_at, due_at, request_number, grant_number, next_call_id, label, open_call_count,
    unconfirmed, place
FROM limit_sessions WHERE limit_id = ?1 AND due_at <= ?3 AND due_at > ?5 AND session_id <> ?2 ORDER BY due_at, session_id LIMIT ?4
