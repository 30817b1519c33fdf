-- Reads the record of a limit as it is.
-- Arguments: environment, name. Reply: one row: record or null, the server's clock in milliseconds.
SELECT found.record, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM (VALUES (1)) AS always
LEFT JOIN (SELECT record FROM forebay_limits WHERE environment = $1 AND name = $2) AS found ON true
