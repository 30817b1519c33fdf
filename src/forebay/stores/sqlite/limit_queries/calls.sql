-- Arguments: limit. Reply: all of its calls.
SELECT sid, id, at, until, units, key, label FROM limit_calls WHERE limit_id = ? ORDER BY sid, id
