-- Finds the place where the first run of a session stands or will stand, most likely, and counts the runs from there on
-- that are not too large.
-- Arguments: limit, session, the key of its first run or '', at most so many of each kind. Reply: one row as JSON: the
-- place, and how many.
WITH first AS MATERIALIZED (
    SELECT coalesce(
        (SELECT min(virtual_start) FROM forebay_limit_runs WHERE limit_id = $1::bigint AND session_id = $2),
        greatest(virtual_time, (SELECT virtual_finish FROM forebay_limit_tails WHERE limit_id = $1::bigint AND key = $3))
    ) AS place
    FROM forebay_limits WHERE id = $1::bigint
)
SELECT json_build_array(json_build_array(place, (SELECT count(*) FROM (
        SELECT FROM forebay_limit_runs WHERE limit_id = $1::bigint AND state = 0 AND virtual_start >= first.place
        LIMIT $4::bigint) AS behind)
    + (SELECT count(*) FROM (
        SELECT FROM forebay_limit_runs WHERE limit_id = $1::bigint AND state = 1 AND virtual_start >= first.place
        LIMIT $4::bigint) AS behind)))
FROM first
