-- Writes what only people and programs change in a header; what an older program left is in rows from now on.
-- Arguments: limit, eras, people.
UPDATE forebay_limits SET eras = $2, people = $3, older = '' WHERE id = $1::bigint
