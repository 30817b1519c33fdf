-- Reads the runs of the session that asks, and those of others that are first in line.
-- Arguments: limit, the session that asks, at most how many runs that may be granted, and that may not yet. Reply:
-- runs.
SELECT session_id, id, state, virtual_start, arrival_number, caller_count, units, key, label, next_call_id,
    grant_number
FROM limit_runs WHERE limit_id = ?1 AND session_id = ?2
UNION ALL SELECT * FROM (
    SELECT session_id, id, state, virtual_start, arrival_number, caller_count, units, key, label, next_call_id,
        grant_number
    FROM limit_runs WHERE limit_id = ?1 AND state = 0 AND session_id <> ?2
    ORDER BY virtual_start, arrival_number LIMIT ?3
)
UNION ALL SELECT * FROM (
    SELECT session_id, id, state, virtual_start, arrival_number, caller_count, units, key, label, next_call_id,
        grant_number
    FROM limit_runs WHERE limit_id = ?1 AND state = 1 AND session_id <> ?2
    ORDER BY virtual_start, arrival_number LIMIT ?4
)
