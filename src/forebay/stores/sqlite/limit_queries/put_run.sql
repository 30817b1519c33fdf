-- Arguments: limit, session, id, state, virtual_start, arrival_number, caller_count, units, key, label,
-- next_call_id, grant_number.
INSERT OR REPLACE INTO limit_runs (limit_id, session_id, id, state, virtual_start, arrival_number, caller_count,
    units, key, label, next_call_id, grant_number)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
