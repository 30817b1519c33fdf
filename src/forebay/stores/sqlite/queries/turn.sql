-- As `renew_exchange`, for one that claims; nobody else can have counted it. :id, :n, :now. No reply.
UPDATE sessions SET expires_at = max(expires_at, :now + lease_s), exchange_n = :n WHERE id = :id
