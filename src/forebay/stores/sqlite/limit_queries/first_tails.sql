-- Arguments: limit, at most so many. Reply: tails.
SELECT key, virtual_finish, run_count FROM limit_tails WHERE limit_id = ? ORDER BY key LIMIT ?
