-- Asks a session to end, unless it has; the first time stands. :id, :now. No reply.
UPDATE forebay_sessions SET drain_at = coalesce(drain_at, :now) WHERE id = :id AND ended_at IS NULL
