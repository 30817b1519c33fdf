-- Arguments: environment, name. Reply: the id of the limit, and how often it was written.
SELECT id, version FROM limits WHERE environment = ? AND name = ?
