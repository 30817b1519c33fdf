-- Arguments: limit, session. Reply: its runs.
SELECT sid, id, state, tag, tick, callers, units, key, label, next, g FROM limit_runs
WHERE limit_id = ? AND sid = ? ORDER BY id
