-- Takes an idempotency key for a request, unless another one has it whose time is not over. :tenant, :key, :token,
-- :for_s, :now. Reply: a row if it is taken.
INSERT INTO requests (tenant, key, token, until) VALUES (:tenant, :key, :token, :now + :for_s)
ON CONFLICT (tenant, key) DO UPDATE SET token = excluded.token, until = excluded.until
WHERE requests.token = excluded.token OR requests.until <= :now
RETURNING 1
