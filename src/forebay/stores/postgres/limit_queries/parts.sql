-- Reads the rows that an exchange needs, after the header was locked.
-- Arguments: limit, session, ids of calls (JSON), keys (JSON), the session of calls that were cut off or '', the clock
-- in milliseconds instead of the server's or null, milliseconds to add to it, and at most how many sessions that are
-- due, runs that may be granted, and runs that may not.
-- Reply: one row, as JSON: sessions, runs, calls, heads, silent, later, tails, windows, and what stands before the
-- asker's first run (virtual start, runs), or null where nobody needs it.
-- Rows are found by arrays of ids: a join might read all rows of the limit.
WITH header AS MATERIALIZED (
    SELECT virtual_time, placed_run_count, greatest(last_step_at, clock_offset_ms + $7::bigint
        + coalesce($6::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)) AS now
    FROM forebay_limits WHERE id = $1::bigint
), due AS MATERIALIZED (
    SELECT * FROM forebay_limit_sessions
    WHERE limit_id = $1::bigint AND due_at <= (SELECT now FROM header) AND due_at >= 0 AND session_id <> $2
    ORDER BY limit_id, due_at, session_id LIMIT $8::bigint
), known AS MATERIALIZED (
    SELECT * FROM forebay_limit_runs
    WHERE limit_id = $1::bigint AND session_id = ANY(ARRAY(SELECT $2 UNION ALL SELECT session_id FROM due))
), heads AS MATERIALIZED (
    SELECT * FROM forebay_limit_runs
    WHERE limit_id = $1::bigint AND state = 0 AND session_id <> $2 AND session_id NOT IN (SELECT session_id FROM due)
    ORDER BY limit_id, state, virtual_start, arrival_number LIMIT $9::bigint
), silent AS MATERIALIZED (
    SELECT * FROM forebay_limit_runs
    WHERE limit_id = $1::bigint AND state = 1 AND session_id <> $2 AND session_id NOT IN (SELECT session_id FROM due)
    ORDER BY limit_id, state, virtual_start, arrival_number LIMIT $10::bigint
), tails AS MATERIALIZED (
    SELECT key, virtual_finish, run_count FROM forebay_limit_tails WHERE limit_id = $1::bigint AND key = ANY(ARRAY(
        SELECT json_array_elements_text($4::json) UNION ALL SELECT key FROM known UNION ALL SELECT key FROM heads
        UNION ALL SELECT key FROM silent))
), first AS MATERIALIZED (
    SELECT coalesce((SELECT min(virtual_start) FROM known WHERE session_id = $2),
        greatest(virtual_time, (SELECT virtual_finish FROM tails WHERE key = $4::json ->> 0))) AS virtual_start
    FROM header WHERE placed_run_count >= $10::bigint
)
SELECT
    (SELECT json_agg(json_build_array(session_id, ends_at, due_at, request_number, grant_number, next_call_id, label,
        open_call_count, unconfirmed)) FROM forebay_limit_sessions
        WHERE limit_id = $1::bigint
            AND session_id = ANY(ARRAY(SELECT $2 UNION ALL SELECT $5 UNION ALL SELECT session_id FROM due))),
    (SELECT json_agg(json_build_array(session_id, id, state, virtual_start, arrival_number, caller_count, units, key,
        label, next_call_id, grant_number)) FROM known),
    (SELECT json_agg(json_build_array(session_id, id, granted_at, call_until, units, key, label)) FROM (
        SELECT * FROM forebay_limit_calls WHERE limit_id = $1::bigint AND session_id = $2
            AND id = ANY(ARRAY(SELECT json_array_elements_text($3::json)::bigint))
        UNION ALL
        SELECT * FROM forebay_limit_calls
            WHERE limit_id = $1::bigint
                AND session_id = ANY(ARRAY(SELECT $5 UNION ALL SELECT session_id FROM due))) AS calls),
    (SELECT json_agg(json_build_array(session_id, id, state, virtual_start, arrival_number, caller_count, units, key,
        label, next_call_id, grant_number)) FROM heads),
    (SELECT json_agg(json_build_array(session_id, id, state, virtual_start, arrival_number, caller_count, units, key,
        label, next_call_id, grant_number)) FROM silent),
    (SELECT json_build_array(json_build_array(session_id, ends_at, due_at, request_number, grant_number, next_call_id,
        label, open_call_count, unconfirmed))
        FROM forebay_limit_sessions
        WHERE limit_id = $1::bigint AND due_at > (SELECT now FROM header) AND due_at >= 0 AND session_id <> $2
        ORDER BY limit_id, due_at, session_id LIMIT 1),
    (SELECT json_agg(json_build_array(key, virtual_finish, run_count)) FROM tails),
    (SELECT json_agg(json_build_array(name, encode(entries, 'hex')))
        FROM forebay_limit_windows WHERE limit_id = $1::bigint),
    (SELECT json_build_array(virtual_start, (SELECT count(*) FROM forebay_limit_runs AS r
            WHERE r.limit_id = $1::bigint AND r.state = 0 AND r.virtual_start < first.virtual_start)
        + (SELECT count(*) FROM forebay_limit_runs AS r
            WHERE r.limit_id = $1::bigint AND r.state = 1 AND r.virtual_start < first.virtual_start)) FROM first)
