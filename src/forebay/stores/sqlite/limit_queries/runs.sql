-- Arguments: limit. Reply: all of its runs.
SELECT session_id, id, state, virtual_start, arrival_number, caller_count, units, key, label, next_call_id, grant_number
FROM limit_runs WHERE limit_id = ? ORDER BY session_id, id
