-- Locks lone tasks: here nobody else can change them. :ids values. No reply.
SELECT 1 WHERE false
