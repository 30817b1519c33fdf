-- Keeps a session alive. :id, :now. Reply: drain_at, if it lives.
UPDATE forebay_sessions
SET expires_at = greatest(expires_at, :now + lease_s)
WHERE id = :id AND ended_at IS NULL
RETURNING drain_at
