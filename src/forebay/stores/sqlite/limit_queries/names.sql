-- Arguments: environment. Reply: the names of its limits.
SELECT name FROM limits WHERE environment = ? ORDER BY name
