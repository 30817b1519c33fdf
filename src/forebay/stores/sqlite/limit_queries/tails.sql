-- Arguments: limit. Reply: all tails.
SELECT key, virtual_finish, run_count FROM limit_tails WHERE limit_id = ?
