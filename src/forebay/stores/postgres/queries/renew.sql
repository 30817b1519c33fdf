-- Keeps a session alive. :id, :progress JSON text or NULL, :now. Reply: drain_at, if it lives.
UPDATE forebay_sessions
SET expires_at = greatest(expires_at, :now + lease_s), progress = :progress
WHERE id = :id AND ended_at IS NULL
RETURNING drain_at
