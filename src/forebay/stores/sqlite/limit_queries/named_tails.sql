-- Arguments: limit, key. Reply: the tail of the key.
SELECT key, virtual_finish, run_count FROM limit_tails WHERE limit_id = ? AND key = ?
