-- Counts the runs before a tag that are not too large.
-- Arguments: limit, tag. Reply: one row: how many.
SELECT (SELECT count(*) FROM forebay_limit_runs WHERE limit_id = $1::bigint AND state = 0 AND tag < $2::bigint)
    + (SELECT count(*) FROM forebay_limit_runs WHERE limit_id = $1::bigint AND state = 1 AND tag < $2::bigint)
