-- Locks the record of a limit until the end of the transaction, and reads it with the time at which it was locked.
-- Arguments: environment, name. Reply: one row: record or null, the server's clock in milliseconds.
-- The inner SELECT is a plan of its own because it locks, so the clock is read only when its row has been handed out.
SELECT found.record, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM (VALUES (1)) AS always
LEFT JOIN (
    SELECT record FROM forebay_limits WHERE environment = $1 AND name = $2 FOR NO KEY UPDATE
) AS found ON true
