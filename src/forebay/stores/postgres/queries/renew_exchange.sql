-- Keeps a session alive and counts its exchange. :id, :n, :now. No reply.
-- A renewal that came meanwhile may be later than this transaction's time.
UPDATE forebay_sessions
SET expires_at = greatest(expires_at, :now + lease_s), exchange_n = greatest(exchange_n, :n)
WHERE id = :id AND ended_at IS NULL
