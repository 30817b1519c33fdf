-- Reads the server's clock, where there is no table to read.
-- Arguments: none. Reply: one row: the server's clock in milliseconds.
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
