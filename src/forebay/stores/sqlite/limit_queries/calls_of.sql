-- Arguments: limit, session. Reply: its calls.
SELECT sid, id, at, until, units, key, label FROM limit_calls WHERE limit_id = ? AND sid = ? ORDER BY id
