-- Reads what a heartbeat needs, after the header was locked.
-- Arguments: limit, session. Reply: one row: sessions and runs as JSON.
SELECT
    (SELECT json_agg(json_build_array(session_id, ends_at, due_at, request_number, grant_number, next_call_id, label,
        open_call_count, unconfirmed)) FROM forebay_limit_sessions
        WHERE limit_id = $1::bigint AND session_id = $2),
    (SELECT json_agg(json_build_array(session_id, id, state, virtual_start, arrival_number, caller_count, units, key,
        label, next_call_id, grant_number))
        FROM forebay_limit_runs WHERE limit_id = $1::bigint AND session_id = $2)
