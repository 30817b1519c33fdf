-- Reads the rows that an exchange needs, after the header was locked.
-- Arguments: limit, session, ids of calls (JSON), keys (JSON), the session of calls that were cut off or '', the clock
-- in milliseconds instead of the server's or null, milliseconds to add to it, and at most how many sessions that are
-- due, runs that may be granted, and runs that may not.
-- Reply: one row, as JSON: sessions, runs, calls, heads, silent, later, tails, windows, and what stands before the
-- asker's first run (tag, runs), or null where nobody needs it.
-- Rows are found by arrays of ids: a join might read all rows of the limit.
WITH header AS MATERIALIZED (
    SELECT virtual, placed, greatest(last, clock_offset + $7::bigint
        + coalesce($6::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)) AS now
    FROM forebay_limits WHERE id = $1::bigint
), due AS MATERIALIZED (
    SELECT * FROM forebay_limit_sessions
    WHERE limit_id = $1::bigint AND due <= (SELECT now FROM header) AND due >= 0 AND sid <> $2
    ORDER BY limit_id, due, sid LIMIT $8::bigint
), known AS MATERIALIZED (
    SELECT * FROM forebay_limit_runs
    WHERE limit_id = $1::bigint AND sid = ANY(ARRAY(SELECT $2 UNION ALL SELECT sid FROM due))
), heads AS MATERIALIZED (
    SELECT * FROM forebay_limit_runs
    WHERE limit_id = $1::bigint AND state = 0 AND sid <> $2 AND sid NOT IN (SELECT sid FROM due)
    ORDER BY limit_id, state, tag, tick LIMIT $9::bigint
), silent AS MATERIALIZED (
    SELECT * FROM forebay_limit_runs
    WHERE limit_id = $1::bigint AND state = 1 AND sid <> $2 AND sid NOT IN (SELECT sid FROM due)
    ORDER BY limit_id, state, tag, tick LIMIT $10::bigint
), tails AS MATERIALIZED (
    SELECT key, tag, runs FROM forebay_limit_tails WHERE limit_id = $1::bigint AND key = ANY(ARRAY(
        SELECT json_array_elements_text($4::json) UNION ALL SELECT key FROM known UNION ALL SELECT key FROM heads
        UNION ALL SELECT key FROM silent))
), first AS MATERIALIZED (
    SELECT coalesce((SELECT min(tag) FROM known WHERE sid = $2),
        greatest(virtual, (SELECT tag FROM tails WHERE key = $4::json ->> 0))) AS tag
    FROM header WHERE placed >= $10::bigint
)
SELECT
    (SELECT json_agg(json_build_array(sid, until, due, n, g, next, label, open, out)) FROM forebay_limit_sessions
        WHERE limit_id = $1::bigint AND sid = ANY(ARRAY(SELECT $2 UNION ALL SELECT $5 UNION ALL SELECT sid FROM due))),
    (SELECT json_agg(json_build_array(sid, id, state, tag, tick, callers, units, key, label, next, g)) FROM known),
    (SELECT json_agg(json_build_array(sid, id, at, until, units, key, label)) FROM (
        SELECT * FROM forebay_limit_calls WHERE limit_id = $1::bigint AND sid = $2
            AND id = ANY(ARRAY(SELECT json_array_elements_text($3::json)::bigint))
        UNION ALL
        SELECT * FROM forebay_limit_calls
            WHERE limit_id = $1::bigint AND sid = ANY(ARRAY(SELECT $5 UNION ALL SELECT sid FROM due))) AS calls),
    (SELECT json_agg(json_build_array(sid, id, state, tag, tick, callers, units, key, label, next, g)) FROM heads),
    (SELECT json_agg(json_build_array(sid, id, state, tag, tick, callers, units, key, label, next, g)) FROM silent),
    (SELECT json_build_array(json_build_array(sid, until, due, n, g, next, label, open, out))
        FROM forebay_limit_sessions
        WHERE limit_id = $1::bigint AND due > (SELECT now FROM header) AND due >= 0 AND sid <> $2
        ORDER BY limit_id, due, sid LIMIT 1),
    (SELECT json_agg(json_build_array(key, tag, runs)) FROM tails),
    (SELECT json_agg(json_build_array(name, encode(entries, 'hex')))
        FROM forebay_limit_windows WHERE limit_id = $1::bigint),
    (SELECT json_build_array(tag, (SELECT count(*) FROM forebay_limit_runs AS r
            WHERE r.limit_id = $1::bigint AND r.state = 0 AND r.tag < first.tag)
        + (SELECT count(*) FROM forebay_limit_runs AS r
            WHERE r.limit_id = $1::bigint AND r.state = 1 AND r.tag < first.tag)) FROM first)
