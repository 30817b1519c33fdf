-- Sessions that have not ended. Reply: as `session`.
SELECT id, worker, lease_s, kinds, opened_at, expires_at, ended_at, exchange_n, drain_at, host, version
FROM sessions
WHERE ended_at IS NULL
