-- Arguments: limit, session, id. Reply: the call.
SELECT session_id, id, granted_at, counted_at, call_until, units, key, label
FROM limit_calls WHERE limit_id = ? AND session_id = ? AND id = ?
