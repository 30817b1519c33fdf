-- Ends an API key; the first time stands. :id, :now. No reply.
UPDATE forebay_keys SET revoked_at = coalesce(revoked_at, :now) WHERE id = :id
