-- Arguments: limit, session, id.
DELETE FROM limit_calls WHERE limit_id = ? AND sid = ? AND id = ?
