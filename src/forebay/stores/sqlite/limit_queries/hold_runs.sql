-- Has the runs of a session wait until it has confirmed what it was given.
-- Arguments: next_call_id, grant_number, limit, session.
UPDATE limit_runs SET state = CASE state WHEN 0 THEN 1 ELSE state END, next_call_id = ?, grant_number = ?
    WHERE limit_id = ? AND session_id = ?
