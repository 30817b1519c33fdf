-- Arguments: limit. Reply: all of its runs.
SELECT sid, id, state, tag, tick, callers, units, key, label, next, g
FROM limit_runs WHERE limit_id = ? ORDER BY sid, id
