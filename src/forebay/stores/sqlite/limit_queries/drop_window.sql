-- Arguments: limit, name.
DELETE FROM limit_windows WHERE limit_id = ? AND name = ?
