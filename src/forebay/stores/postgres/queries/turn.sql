-- As `renew_exchange`, for one that claims. :id, :n, :now. No reply.
-- If the session ended meanwhile, or another transaction counted the same number, an error (a division by zero) takes
-- back all of this one, and it is run again.
WITH turned AS (
    UPDATE forebay_sessions
    SET expires_at = greatest(expires_at, :now + lease_s), exchange_n = :n
    WHERE id = :id AND ended_at IS NULL AND exchange_n < :n
    RETURNING id
)
SELECT 1 / count(*) FROM turned
