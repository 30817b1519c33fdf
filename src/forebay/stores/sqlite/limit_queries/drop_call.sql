-- Arguments: limit, session, id.
DELETE FROM limit_calls WHERE limit_id = ? AND session_id = ? AND id = ?
