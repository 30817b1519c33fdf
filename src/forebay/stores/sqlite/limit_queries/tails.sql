-- Arguments: limit. Reply: all tails.
SELECT key, tag, runs FROM limit_tails WHERE limit_id = ?
