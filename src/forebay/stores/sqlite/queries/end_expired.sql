-- Ends the sessions that ran out. :now. No reply.
UPDATE sessions SET ended_at = :now WHERE ended_at IS NULL AND expires_at <= :now
