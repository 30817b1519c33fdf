-- Arguments: limit, key. Reply: the tail of the key.
SELECT key, tag, runs FROM limit_tails WHERE limit_id = ? AND key = ?
