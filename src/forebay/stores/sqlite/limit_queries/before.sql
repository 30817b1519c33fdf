-- Counts the runs before a tag that are not too large.
-- Arguments: limit, tag, limit, tag. Reply: one row: how many.
SELECT (SELECT count(*) FROM limit_runs WHERE limit_id = ? AND state = 0 AND tag < ?)
    + (SELECT count(*) FROM limit_runs WHERE limit_id = ? AND state = 1 AND tag < ?)
