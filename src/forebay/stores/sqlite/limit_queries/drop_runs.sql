-- Arguments: limit, session.
DELETE FROM limit_runs WHERE limit_id = ? AND sid = ?
