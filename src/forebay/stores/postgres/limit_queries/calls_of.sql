-- Arguments: limit, session. Reply: its calls as JSON.
SELECT json_agg(json_build_array(session_id, id, granted_at, counted_at, call_until, units, key, label))
FROM forebay_limit_calls WHERE limit_id = $1::bigint AND session_id = $2
