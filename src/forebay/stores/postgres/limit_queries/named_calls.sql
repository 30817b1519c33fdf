-- Arguments: limit, session, ids (JSON). Reply: calls as JSON.
SELECT json_agg(json_build_array(session_id, id, granted_at, counted_at, call_until, units, key, label))
FROM forebay_limit_calls WHERE limit_id = $1::bigint AND session_id = $2
    AND id = ANY(ARRAY(SELECT json_array_elements_text($3::json)::bigint))
