-- Keeps a session alive and counts its exchange. :id, :n, :now. No reply.
UPDATE sessions
SET expires_at = max(expires_at, :now + lease_s), exchange_n = max(exchange_n, :n)
WHERE id = :id AND ended_at IS NULL
