-- Tells a session what it was given: after the COMMIT, because a NOTIFY keeps all others of the server waiting until
-- its own transaction has ended.
-- Arguments: channel, payload. Reply: none of use.
SELECT pg_notify($1, $2)
