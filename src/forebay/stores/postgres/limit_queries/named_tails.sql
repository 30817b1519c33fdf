-- Arguments: limit, keys (JSON). Reply: tails as JSON.
SELECT json_agg(json_build_array(key, virtual_finish, run_count))
FROM forebay_limit_tails WHERE limit_id = $1::bigint AND key = ANY(ARRAY(SELECT json_array_elements_text($2::json)))
