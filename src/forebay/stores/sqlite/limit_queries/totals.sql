-- Counts the rows of a limit.
-- Arguments: limit. Reply: one row: how many sessions, runs, calls, tails.
SELECT (SELECT count(*) FROM limit_sessions WHERE limit_id = ?1), (SELECT count(*) FROM limit_runs WHERE limit_id = ?1),
    (SELECT count(*) FROM limit_calls WHERE limit_id = ?1), (SELECT count(*) FROM limit_tails WHERE limit_id = ?1)
