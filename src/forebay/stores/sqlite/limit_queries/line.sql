-- Reads the first runs of a state in the order in which they are served.
-- Arguments: limit, state, sessions to leave out (JSON), at most so many. Reply: runs.
SELECT sid, id, state, tag, tick, callers, units, key, label, next, g FROM limit_runs
WHERE limit_id = ? AND state = ? AND sid NOT IN (SELECT value FROM json_each(?)) ORDER BY tag, tick LIMIT ?
