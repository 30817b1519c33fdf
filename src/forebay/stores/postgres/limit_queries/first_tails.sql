-- Arguments: limit, at most so many. Reply: tails as JSON.
SELECT json_agg(json_build_array(key, virtual_finish, run_count))
FROM (SELECT * FROM forebay_limit_tails WHERE limit_id = $1::bigint ORDER BY limit_id, key LIMIT $2::bigint) AS tails
