-- Arguments: limit, session. Reply: its calls.
SELECT session_id, id, granted_at, counted_at, call_until, units, key, label FROM limit_calls WHERE limit_id = ?
    AND session_id = ? ORDER BY id
