-- Replaces a record that this transaction has locked.
-- Arguments: record, environment, name. Reply: none.
UPDATE forebay_limits SET record = $1 WHERE environment = $2 AND name = $3
