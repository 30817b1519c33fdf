-- Arguments: limit, session, id.
DELETE FROM limit_runs WHERE limit_id = ? AND session_id = ? AND id = ?
