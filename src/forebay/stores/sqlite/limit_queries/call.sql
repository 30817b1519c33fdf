-- Arguments: limit, session, id. Reply: the call.
SELECT sid, id, at, until, units, key, label FROM limit_calls WHERE limit_id = ? AND sid = ? AND id = ?
