-- Arguments: limit, key.
DELETE FROM limit_tails WHERE limit_id = ? AND key = ?
