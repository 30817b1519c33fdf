-- Arguments: limit, session, id.
DELETE FROM limit_runs WHERE limit_id = ? AND sid = ? AND id = ?
