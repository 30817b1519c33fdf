-- Counts the runs from a virtual start on that are not too large.
-- Arguments: limit, virtual start, at most so many of each kind. Reply: one row as JSON: how many.
SELECT json_build_array(json_build_array((SELECT count(*) FROM (
        SELECT FROM forebay_limit_runs WHERE limit_id = $1::bigint AND state = 0 AND virtual_start >= $2::bigint
        LIMIT $3::bigint) AS behind)
    + (SELECT count(*) FROM (
        SELECT FROM forebay_limit_runs WHERE limit_id = $1::bigint AND state = 1 AND virtual_start >= $2::bigint
        LIMIT $3::bigint) AS behind)))
