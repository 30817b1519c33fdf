-- Locks the header of a limit until the end of the transaction, unless somebody else has it locked, and reads it.
-- Arguments: environment, name.
-- Reply: one row: the server's clock in milliseconds, the header or nulls, and whether there is such a limit.
-- The inner SELECT is a plan of its own because it locks, so the clock is read only when its row has been handed out.
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, found.*,
    EXISTS(SELECT FROM forebay_limits WHERE environment = $1 AND name = $2)
FROM (VALUES (1)) AS always
LEFT JOIN (
    SELECT id, version, last_step_at, clock_offset_ms, virtual_time, placed_run_count, head, eras, people, older
    FROM forebay_limits
    WHERE environment = $1 AND name = $2 FOR NO KEY UPDATE SKIP LOCKED
) AS found ON true
