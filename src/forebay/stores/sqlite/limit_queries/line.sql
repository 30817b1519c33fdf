-- Reads the first runs of a state in the order in which they are served.
-- Arguments: limit, state, sessions to leave out (JSON), at most so many. Reply: runs.
SELECT session_id, id, state, virtual_start, arrival_number, caller_count, units, key, label, next_call_id,
    grant_number FROM limit_runs
WHERE limit_id = ? AND state = ? AND session_id NOT IN (SELECT value FROM json_each(?))
    ORDER BY virtual_start, arrival_number LIMIT ?
