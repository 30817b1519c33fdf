-- Locks the header of a limit until the end of the transaction, and reads it with the time at which it was locked.
-- Arguments: environment, name. Reply: one row: the server's clock in milliseconds, and the header or nulls.
-- The inner SELECT is a plan of its own because it locks, so the clock is read only when its row has been handed out.
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, found.*
FROM (VALUES (1)) AS always
LEFT JOIN (
    SELECT id, version, last_step_at, clock_offset_ms, virtual_time, placed_run_count, head, eras, people, older
        FROM forebay_limits
    WHERE environment = $1 AND name = $2 FOR NO KEY UPDATE
) AS found ON true
