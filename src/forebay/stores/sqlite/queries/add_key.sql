-- Stores an API key, unless there is one of its id. :id, :label, :digest, :scopes JSON text, :tenant or null,
-- :expires_at or null, :now. No reply.
INSERT INTO keys (id, name, sha256, scopes, tenant, expires_at, created_at)
VALUES (:id, :label, :digest, :scopes, :tenant, :expires_at, :now)
ON CONFLICT (id) DO NOTHING
