-- Keeps a session alive. :id, :progress JSON text or NULL, :now. Reply: drain_at, if it lives.
-- An exchange that came while this one waited for its turn may have moved it further.
UPDATE sessions SET expires_at = max(expires_at, :now + lease_s), progress = :progress
WHERE id = :id AND ended_at IS NULL
RETURNING drain_at
