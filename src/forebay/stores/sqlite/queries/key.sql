-- One API key. :id. Reply: rows.KEY_NAMES.
SELECT id, name, sha256, scopes, tenant, expires_at, created_at, revoked_at FROM keys WHERE id = :id
