-- Reads what a heartbeat needs, after the header was locked.
-- Arguments: environment, name, session. Reply: one row: sessions and runs as JSON.
SELECT
    (SELECT coalesce(json_agg(json_build_array(sid, until, due, n, g, next, label, open, out)), '[]')
        FROM forebay_limit_sessions
        WHERE limit_id = (SELECT id FROM forebay_limits WHERE environment = $1 AND name = $2) AND sid = $3),
    (SELECT coalesce(json_agg(json_build_array(sid, id, state, tag, tick, callers, units, key, label, next, g)), '[]')
        FROM forebay_limit_runs
        WHERE limit_id = (SELECT id FROM forebay_limits WHERE environment = $1 AND name = $2) AND sid = $3)
