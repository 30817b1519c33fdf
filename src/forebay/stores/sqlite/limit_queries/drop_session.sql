-- Arguments: limit, session.
DELETE FROM limit_sessions WHERE limit_id = ? AND session_id = ?
