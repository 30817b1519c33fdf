-- Reads what a heartbeat needs, after the header was locked.
-- Arguments: limit, session. Reply: one row: sessions and runs as JSON.
SELECT
    (SELECT json_agg(json_build_array(sid, until, due, n, g, next, label, open, out)) FROM forebay_limit_sessions
        WHERE limit_id = $1::bigint AND sid = $2),
    (SELECT json_agg(json_build_array(sid, id, state, tag, tick, callers, units, key, label, next, g))
        FROM forebay_limit_runs WHERE limit_id = $1::bigint AND sid = $2)
