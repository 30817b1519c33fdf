-- Arguments: limit, session. Reply: its runs as JSON.
SELECT json_agg(json_build_array(session_id, id, state, virtual_start, arrival_number, caller_count, units, key, label,
    next_call_id, grant_number))
FROM forebay_limit_runs WHERE limit_id = $1::bigint AND session_id = $2
