-- Writes what a step has changed in a limit whose header is locked.
-- Arguments: limit, last_step_at, clock_offset_ms, virtual_time, placed_run_count, head, and as JSON: sessions that
-- are dropped, sessions, sessions that were granted something and of which only places are known, runs that are
-- dropped, runs, calls that are dropped, calls, tails that are dropped, tails, windows that are dropped, windows.
-- Reply: none. Rows are found by their places (ctid), which nobody else moves: a join might read all rows of the limit.
WITH header AS (
    UPDATE forebay_limits SET version = version + 1, last_step_at = $2::bigint, clock_offset_ms = $3::bigint,
        virtual_time = $4::bigint,
        placed_run_count = $5::bigint, head = $6
    WHERE id = $1::bigint
), dropped_sessions AS (
    DELETE FROM forebay_limit_sessions WHERE ctid = ANY(ARRAY(SELECT (
        SELECT ctid FROM forebay_limit_sessions WHERE limit_id = $1::bigint AND session_id = dropped
    ) FROM json_array_elements_text($7::json) AS dropped))
), sessions AS (
    INSERT INTO forebay_limit_sessions (limit_id, session_id, ends_at, due_at, request_number, grant_number,
        next_call_id, label, open_call_count, unconfirmed, place)
    SELECT $1::bigint, row ->> 0, (row ->> 1)::bigint, (row ->> 2)::bigint, (row ->> 3)::bigint, (row ->> 4)::bigint,
        (row ->> 5)::bigint, row ->> 6, (row ->> 7)::bigint, row ->> 8, row ->> 9
    FROM json_array_elements($8::json) AS row
    ON CONFLICT (limit_id, session_id) DO UPDATE SET ends_at = excluded.ends_at, due_at = excluded.due_at,
        request_number = excluded.request_number, grant_number = excluded.grant_number,
        next_call_id = excluded.next_call_id, label = excluded.label, open_call_count = excluded.open_call_count,
        unconfirmed = excluded.unconfirmed, place = excluded.place
), granted AS (
    UPDATE forebay_limit_sessions AS s SET (next_call_id, grant_number, unconfirmed, open_call_count) = (
        SELECT (row ->> 1)::bigint, (row ->> 2)::bigint, row ->> 3, s.open_call_count + (row ->> 4)::bigint
        FROM json_array_elements($9::json) AS row WHERE row ->> 0 = s.session_id)
    WHERE ctid = ANY(ARRAY(SELECT (
        SELECT ctid FROM forebay_limit_sessions WHERE limit_id = $1::bigint AND session_id = row ->> 0
    ) FROM json_array_elements($9::json) AS row))
), held AS (
    UPDATE forebay_limit_runs AS r
    SET state = CASE state WHEN 0 THEN 1 ELSE state END,
        next_call_id = (SELECT (row ->> 1)::bigint FROM json_array_elements($9::json) AS row
            WHERE row ->> 0 = r.session_id),
        grant_number = (SELECT (row ->> 2)::bigint FROM json_array_elements($9::json) AS row
            WHERE row ->> 0 = r.session_id)
    WHERE limit_id = $1::bigint AND session_id = ANY(ARRAY(SELECT row ->> 0 FROM json_array_elements($9::json) AS row))
        AND NOT EXISTS (
            SELECT FROM json_array_elements($9::json) AS row, json_array_elements_text(row -> 5) AS known
            WHERE row ->> 0 = r.session_id AND known::bigint = r.id)
), dropped_runs AS (
    DELETE FROM forebay_limit_runs WHERE ctid = ANY(ARRAY(SELECT (
        SELECT ctid FROM forebay_limit_runs
        WHERE limit_id = $1::bigint AND session_id = row ->> 0 AND id = (row ->> 1)::bigint
    ) FROM json_array_elements($10::json) AS row))
), runs AS (
    INSERT INTO forebay_limit_runs (limit_id, session_id, id, state, virtual_start, arrival_number, caller_count,
        units, key, label, next_call_id, grant_number)
    SELECT $1::bigint, row ->> 0, (row ->> 1)::bigint, (row ->> 2)::bigint, (row ->> 3)::bigint, (row ->> 4)::bigint,
        (row ->> 5)::bigint, row ->> 6, row ->> 7, row ->> 8, (row ->> 9)::bigint, (row ->> 10)::bigint
    FROM json_array_elements($11::json) AS row
    ON CONFLICT (limit_id, session_id, id) DO UPDATE SET state = excluded.state, virtual_start = excluded.virtual_start,
        arrival_number = excluded.arrival_number, caller_count = excluded.caller_count, units = excluded.units,
            key = excluded.key, label = excluded.label,
        next_call_id = excluded.next_call_id, grant_number = excluded.grant_number
), dropped_calls AS (
    DELETE FROM forebay_limit_calls WHERE ctid = ANY(ARRAY(SELECT (
        SELECT ctid FROM forebay_limit_calls
        WHERE limit_id = $1::bigint AND session_id = row ->> 0 AND id = (row ->> 1)::bigint
    ) FROM json_array_elements($12::json) AS row))
), calls AS (
    INSERT INTO forebay_limit_calls (limit_id, session_id, id, granted_at, counted_at, call_until, units, key, label)
    SELECT $1::bigint, row ->> 0, (row ->> 1)::bigint, (row ->> 2)::bigint, (row ->> 3)::bigint, (row ->> 4)::bigint,
        row ->> 5, row ->> 6, row ->> 7
    FROM json_array_elements($13::json) AS row
    ON CONFLICT (limit_id, session_id, id) DO UPDATE SET granted_at = excluded.granted_at,
        counted_at = excluded.counted_at,
        call_until = excluded.call_until, units = excluded.units, key = excluded.key, label = excluded.label
), dropped_tails AS (
    DELETE FROM forebay_limit_tails WHERE ctid = ANY(ARRAY(SELECT (
        SELECT ctid FROM forebay_limit_tails WHERE limit_id = $1::bigint AND key = dropped
    ) FROM json_array_elements_text($14::json) AS dropped))
), tails AS (
    INSERT INTO forebay_limit_tails (limit_id, key, virtual_finish, run_count)
    SELECT $1::bigint, row ->> 0, (row ->> 1)::bigint, (row ->> 2)::bigint FROM json_array_elements($15::json) AS row
    ON CONFLICT (limit_id, key) DO UPDATE SET virtual_finish = excluded.virtual_finish, run_count = excluded.run_count
), dropped_windows AS (
    DELETE FROM forebay_limit_windows WHERE ctid = ANY(ARRAY(SELECT (
        SELECT ctid FROM forebay_limit_windows WHERE limit_id = $1::bigint AND name = dropped
    ) FROM json_array_elements_text($16::json) AS dropped))
)
INSERT INTO forebay_limit_windows (limit_id, name, entries)
SELECT $1::bigint, row ->> 0, decode(row ->> 1, 'hex') FROM json_array_elements($17::json) AS row
ON CONFLICT (limit_id, name) DO UPDATE SET entries = excluded.entries
