-- Counts the rows of a limit.
-- Arguments: limit. Reply: one row as JSON: how many sessions, runs, calls, tails.
SELECT json_build_array(json_build_array(
    (SELECT count(*) FROM forebay_limit_sessions WHERE limit_id = $1::bigint),
    (SELECT count(*) FROM forebay_limit_runs WHERE limit_id = $1::bigint),
    (SELECT count(*) FROM forebay_limit_calls WHERE limit_id = $1::bigint),
    (SELECT count(*) FROM forebay_limit_tails WHERE limit_id = $1::bigint)))
