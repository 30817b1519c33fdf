-- Reads the header of a limit as it is, and all of its rows, at one instant.
-- Arguments: environment, name. Reply: one row: the server's clock in milliseconds, the header or nulls, and as JSON
-- sessions, runs, calls, tails, windows.
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, found.*,
    (SELECT coalesce(json_agg(json_build_array(sid, until, due, n, g, next, label, open, out) ORDER BY sid), '[]')
        FROM forebay_limit_sessions WHERE limit_id = found.id),
    (SELECT coalesce(json_agg(json_build_array(sid, id, state, tag, tick, callers, units, key, label, next, g)
        ORDER BY sid, id), '[]') FROM forebay_limit_runs WHERE limit_id = found.id),
    (SELECT coalesce(json_agg(json_build_array(sid, id, at, until, units, key, label) ORDER BY sid, id), '[]')
        FROM forebay_limit_calls WHERE limit_id = found.id),
    (SELECT coalesce(json_agg(json_build_array(key, tag, runs)), '[]')
        FROM forebay_limit_tails WHERE limit_id = found.id),
    (SELECT coalesce(json_agg(json_build_array(name, encode(entries, 'hex'))), '[]')
        FROM forebay_limit_windows WHERE limit_id = found.id)
FROM (VALUES (1)) AS always
LEFT JOIN (
    SELECT id, version, last, clock_offset, virtual, placed, head, eras, people, older FROM forebay_limits
    WHERE environment = $1 AND name = $2
) AS found ON true
