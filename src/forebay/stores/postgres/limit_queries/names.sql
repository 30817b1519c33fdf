-- Arguments: environment. Reply: the names of its limits.
SELECT name FROM forebay_limits WHERE environment = $1
