-- Begins a session; of one that is there the kinds alone change. :id, :worker, :lease_s, :kinds JSON text,
-- :host, :version, :now. No reply.
INSERT INTO sessions (id, worker, lease_s, kinds, opened_at, expires_at, host, version)
VALUES (:id, :worker, :lease_s, :kinds, :now, :now + :lease_s, :host, :version)
ON CONFLICT (id) DO UPDATE SET kinds = excluded.kinds
