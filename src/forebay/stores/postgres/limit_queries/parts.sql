-- Reads the rows that an exchange needs, after the header was locked.
-- Arguments: environment, name, session, ids of calls (JSON), keys (JSON), the session of calls that were cut off or '',
-- the clock in milliseconds instead of the server's or null, milliseconds to add to it, how many sessions that are due,
-- runs that may be granted and runs that may not, and after how many writes all rows are counted.
-- Reply: one row, as JSON: sessions, runs, calls, heads, silent, later, tails, windows, what stands before the asker's
-- first run (tag, runs), totals (sessions, runs, calls, tails). The last two are null where nobody needs them.
WITH header AS MATERIALIZED (
    SELECT id, version, virtual, placed, greatest(last, clock_offset + $8::bigint
        + coalesce($7::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)) AS now
    FROM forebay_limits WHERE environment = $1 AND name = $2
), due AS MATERIALIZED (
    SELECT * FROM forebay_limit_sessions
    WHERE limit_id = (SELECT id FROM header) AND due <= (SELECT now FROM header) AND sid <> $3
    ORDER BY limit_id, due, sid LIMIT $9::bigint
), own AS MATERIALIZED (
    SELECT * FROM forebay_limit_sessions WHERE limit_id = (SELECT id FROM header) AND sid = $3
), ended AS MATERIALIZED (
    SELECT * FROM forebay_limit_sessions
    WHERE limit_id = (SELECT id FROM header) AND sid = $6 AND sid NOT IN (SELECT sid FROM due)
), known AS MATERIALIZED (
    SELECT r.* FROM (SELECT sid FROM own UNION ALL SELECT sid FROM due) AS s
    JOIN forebay_limit_runs AS r ON r.limit_id = (SELECT id FROM header) AND r.sid = s.sid
), heads AS MATERIALIZED (
    SELECT * FROM forebay_limit_runs
    WHERE limit_id = (SELECT id FROM header) AND state = 0 AND (SELECT placed FROM header) > 0
        AND sid <> $3 AND sid NOT IN (SELECT sid FROM due)
    ORDER BY limit_id, state, tag, tick LIMIT $10::bigint
), silent AS MATERIALIZED (
    SELECT * FROM forebay_limit_runs
    WHERE limit_id = (SELECT id FROM header) AND state = 1 AND (SELECT placed FROM header) > 0
        AND sid <> $3 AND sid NOT IN (SELECT sid FROM due)
    ORDER BY limit_id, state, tag, tick LIMIT $11::bigint
), keys AS MATERIALIZED (
    SELECT json_array_elements_text($5::json) AS key UNION SELECT key FROM known UNION SELECT key FROM heads
    UNION SELECT key FROM silent
), tails AS MATERIALIZED (
    SELECT t.key, t.tag, t.runs FROM keys JOIN forebay_limit_tails AS t
    ON t.limit_id = (SELECT id FROM header) AND t.key = keys.key
), first AS MATERIALIZED (
    SELECT coalesce((SELECT min(tag) FROM known WHERE sid = $3), greatest((SELECT virtual FROM header),
        (SELECT tag FROM tails WHERE key = $5::json ->> 0))) AS tag
    WHERE (SELECT placed FROM header) >= $11::bigint
)
SELECT
    (SELECT coalesce(json_agg(json_build_array(sid, until, due, n, g, next, label, open, out)), '[]')
        FROM (SELECT * FROM own UNION ALL SELECT * FROM due UNION ALL SELECT * FROM ended) AS sessions),
    (SELECT coalesce(json_agg(json_build_array(sid, id, state, tag, tick, callers, units, key, label, next, g)), '[]')
        FROM known),
    (SELECT coalesce(json_agg(json_build_array(sid, id, at, until, units, key, label)), '[]') FROM (
        SELECT c.* FROM json_array_elements_text($4::json) AS named JOIN forebay_limit_calls AS c
        ON c.limit_id = (SELECT id FROM header) AND c.sid = $3 AND c.id = named::bigint
        UNION ALL
        SELECT c.* FROM (SELECT sid FROM due UNION ALL SELECT sid FROM ended) AS s JOIN forebay_limit_calls AS c
        ON c.limit_id = (SELECT id FROM header) AND c.sid = s.sid
    ) AS calls),
    (SELECT coalesce(json_agg(json_build_array(sid, id, state, tag, tick, callers, units, key, label, next, g)), '[]')
        FROM heads),
    (SELECT coalesce(json_agg(json_build_array(sid, id, state, tag, tick, callers, units, key, label, next, g)), '[]')
        FROM silent),
    (SELECT coalesce(json_agg(json_build_array(sid, until, due, n, g, next, label, open, out)), '[]') FROM (
        SELECT * FROM forebay_limit_sessions
        WHERE limit_id = (SELECT id FROM header) AND due > (SELECT now FROM header) AND sid <> $3
        ORDER BY limit_id, due LIMIT 1
    ) AS later),
    (SELECT coalesce(json_agg(json_build_array(key, tag, runs)), '[]') FROM tails),
    (SELECT coalesce(json_agg(json_build_array(name, encode(entries, 'hex'))), '[]')
        FROM forebay_limit_windows WHERE limit_id = (SELECT id FROM header)),
    (SELECT json_build_array(tag, (SELECT count(*) FROM forebay_limit_runs AS r
            WHERE r.limit_id = (SELECT id FROM header) AND r.state = 0 AND r.tag < first.tag)
        + (SELECT count(*) FROM forebay_limit_runs AS r
            WHERE r.limit_id = (SELECT id FROM header) AND r.state = 1 AND r.tag < first.tag)) FROM first),
    CASE WHEN (SELECT version FROM header) % $12::bigint = 0 THEN json_build_array(
        (SELECT count(*) FROM forebay_limit_sessions WHERE limit_id = (SELECT id FROM header)),
        (SELECT count(*) FROM forebay_limit_runs WHERE limit_id = (SELECT id FROM header)),
        (SELECT count(*) FROM forebay_limit_calls WHERE limit_id = (SELECT id FROM header)),
        (SELECT count(*) FROM forebay_limit_tails WHERE limit_id = (SELECT id FROM header))) END
