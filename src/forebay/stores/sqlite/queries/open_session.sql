-- Begins a session, unless it is there. :id, :worker, :lease_s, :kinds JSON text, :now. No reply.
INSERT INTO sessions
VALUES (:id, :worker, :lease_s, :kinds, :now, :now + :lease_s, NULL, 0)
ON CONFLICT (id) DO NOTHING
