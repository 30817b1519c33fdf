-- Arguments: limit, session.
DELETE FROM limit_calls WHERE limit_id = ? AND sid = ?
