-- Takes an idempotency key for a request, unless another one has it whose time is not over. :tenant, :key, :token,
-- :for_s, :now. Reply: a row if it is taken.
INSERT INTO forebay_requests (tenant, key, token, until) VALUES (:tenant, :key, :token, :now + :for_s::float8)
ON CONFLICT (tenant, key) DO UPDATE SET token = excluded.token, until = excluded.until
WHERE forebay_requests.token = excluded.token OR forebay_requests.until <= :now
RETURNING 1
