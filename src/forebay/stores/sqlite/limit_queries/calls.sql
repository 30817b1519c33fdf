-- Arguments: limit. Reply: all of its calls.
SELECT session_id, id, granted_at, counted_at, call_until, units, key, label FROM limit_calls WHERE limit_id = ?
    ORDER BY session_id, id
