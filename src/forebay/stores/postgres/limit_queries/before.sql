-- Counts the runs before a virtual start that are not too large.
-- Arguments: limit, virtual start. Reply: one row as JSON: how many.
SELECT json_build_array(json_build_array(
    (SELECT count(*) FROM forebay_limit_runs
        WHERE limit_id = $1::bigint AND state = 0 AND virtual_start < $2::bigint)
    + (SELECT count(*) FROM forebay_limit_runs
        WHERE limit_id = $1::bigint AND state = 1 AND virtual_start < $2::bigint)))
