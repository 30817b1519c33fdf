-- Forgets sessions that ended long ago. :kept_s, :now. No reply.
DELETE FROM sessions WHERE ended_at < :now - :kept_s
