-- Ends the sessions that ran out; one that is just being renewed is alive. :now. No reply.
UPDATE forebay_sessions
SET ended_at = :now
WHERE id IN (
    SELECT id FROM forebay_sessions WHERE ended_at IS NULL AND expires_at <= :now ORDER BY id FOR UPDATE SKIP LOCKED
)
