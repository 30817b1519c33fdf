-- Whether a session ran out. :now. Reply: one row if so.
SELECT 1 FROM sessions WHERE ended_at IS NULL AND expires_at <= :now LIMIT 1
