-- Reads the session that asks, the one that holds its calls that were cut off, and of all others the one that is due
-- next.
-- Arguments: limit, the session that asks, the session of calls that were cut off or ''. Reply: sessions as JSON, and
-- after each 1 if it is the one that is due next.
SELECT json_agg(json_build_array(session_id, ends_at, due_at, request_number, grant_number, next_call_id, label,
    open_call_count, unconfirmed, place, is_next))
FROM (
    SELECT *, 0 AS is_next FROM forebay_limit_sessions WHERE limit_id = $1::bigint AND session_id = ANY(ARRAY[$2, $3])
    UNION ALL (
        SELECT *, 1 FROM forebay_limit_sessions WHERE limit_id = $1::bigint AND due_at >= 0 AND session_id <> $2
        ORDER BY limit_id, due_at, session_id LIMIT 1
    )
) AS near
