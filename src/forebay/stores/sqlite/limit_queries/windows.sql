-- Arguments: limit. Reply: the logs of its windows.
SELECT name, entries FROM limit_windows WHERE limit_id = ?
