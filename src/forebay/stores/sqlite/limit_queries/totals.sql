-- Counts the rows of a limit.
-- Arguments: limit, four times. Reply: one row: how many sessions, runs, calls, tails.
SELECT (SELECT count(*) FROM limit_sessions WHERE limit_id = ?), (SELECT count(*) FROM limit_runs WHERE limit_id = ?),
    (SELECT count(*) FROM limit_calls WHERE limit_id = ?), (SELECT count(*) FROM limit_tails WHERE limit_id = ?)
