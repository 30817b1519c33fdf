-- Gives an idempotency key back, and those whose time is over. :tenant, :key, :token, :now. No reply.
DELETE FROM forebay_requests WHERE (tenant = :tenant AND key = :key AND token = :token) OR until <= :now
