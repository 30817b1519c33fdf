-- A session. :id. Reply: id, worker, lease_s, kinds, opened_at, expires_at, ended_at or NULL, exchange_n.
SELECT id, worker, lease_s, kinds, opened_at, expires_at, ended_at, exchange_n FROM forebay_sessions WHERE id = :id
