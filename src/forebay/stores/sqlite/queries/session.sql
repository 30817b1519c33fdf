-- A session. :id. Reply: id, worker, lease_s, kinds, opened_at, expires_at, ended_at or NULL, exchange_n,
-- drain_at or NULL, host, version.
SELECT id, worker, lease_s, kinds, opened_at, expires_at, ended_at, exchange_n, drain_at, host, version
FROM sessions WHERE id = :id
