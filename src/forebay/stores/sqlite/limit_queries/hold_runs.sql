-- Has the runs of a session wait until it has confirmed what it was given.
-- Arguments: next, g, limit, session.
UPDATE limit_runs SET state = CASE state WHEN 0 THEN 1 ELSE state END, next = ?, g = ? WHERE limit_id = ? AND sid = ?
