-- Has the runs of a session wait until it has confirmed what it was given.
-- Arguments: next, g, limit, session.
UPDATE limit_runs SET state = 1, next = ?, g = ? WHERE limit_id = ? AND sid = ? AND state = 0
