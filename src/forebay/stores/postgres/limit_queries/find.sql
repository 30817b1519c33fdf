-- Reads the header of a limit as it is, and the rows of one session, at one instant.
-- Arguments: environment, name, session. Reply: one row: the server's clock in milliseconds, the header or nulls, and
-- as JSON sessions, runs, calls.
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, found.*,
    (SELECT coalesce(json_agg(json_build_array(session_id, ends_at, due_at, request_number, grant_number,
        next_call_id, label, open_call_count, unconfirmed, place) ORDER BY session_id), '[]')
        FROM forebay_limit_sessions
        WHERE limit_id = found.id AND session_id = $3),
    (SELECT coalesce(json_agg(json_build_array(session_id, id, state, virtual_start, arrival_number, caller_count,
        units, key, label, next_call_id, grant_number)
        ORDER BY session_id, id), '[]') FROM forebay_limit_runs
        WHERE limit_id = found.id AND session_id = $3),
    (SELECT coalesce(json_agg(json_build_array(session_id, id, granted_at, counted_at, call_until, units, key, label)
        ORDER BY session_id, id), '[]')
        FROM forebay_limit_calls
        WHERE limit_id = found.id AND session_id = $3)
FROM (VALUES (1)) AS always
LEFT JOIN (
    SELECT id, version, last_step_at, clock_offset_ms, virtual_time, placed_run_count, head, eras, people, older
        FROM forebay_limits
    WHERE environment = $1 AND name = $2
) AS found ON true
