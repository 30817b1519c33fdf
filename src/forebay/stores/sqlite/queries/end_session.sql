-- Ends a session. :id, :now. No reply.
UPDATE sessions SET ended_at = :now WHERE id = :id AND ended_at IS NULL
