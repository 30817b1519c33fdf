-- Writes all that a heartbeat changes.
-- Arguments: limit, last, session, until, due, n, g, next.
WITH header AS (
    UPDATE forebay_limits SET version = version + 1, last = $2::bigint WHERE id = $1::bigint
)
UPDATE forebay_limit_sessions
SET until = $4::bigint, due = $5::bigint, n = $6::bigint, g = $7::bigint, next = $8::bigint
WHERE limit_id = $1::bigint AND sid = $3
