-- Reads the session that is due next after an instant.
-- Arguments: limit, the session that asks, the instant. Reply: a session as JSON, or none.
SELECT json_agg(json_build_array(session_id, ends_at, due_at, request_number, grant_number, next_call_id, label,
    open_call_count, unconfirmed, place))
FROM (
    SELECT * FROM forebay_limit_sessions
    WHERE limit_id = $1::bigint AND due_at > $3::bigint AND due_at >= 0 AND session_id <> $2
    ORDER BY limit_id, due_at, session_id LIMIT 1
) AS later
