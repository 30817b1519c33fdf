-- Ends pauses. :lanes values. No reply.
DELETE FROM pauses WHERE lane IN (SELECT value FROM json_each(:lanes))
