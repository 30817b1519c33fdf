-- Arguments: limit, session. Reply: the session as JSON.
SELECT json_agg(json_build_array(session_id, ends_at, due_at, request_number, grant_number, next_call_id, label,
    open_call_count, unconfirmed, place))
FROM forebay_limit_sessions WHERE limit_id = $1::bigint AND session_id = $2
