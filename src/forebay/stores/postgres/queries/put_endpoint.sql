-- Stores an endpoint if nobody else did so since the version before. :id, :tenant, :url, :created_at, :generation,
-- :rotated_at or null, :disabled_at or null, :note, :version. Reply: its id, if it was stored.
INSERT INTO forebay_endpoints AS e (id, tenant, url, created_at, generation, rotated_at, disabled_at, note, version)
VALUES (:id::text, :tenant::text, :url::text, :created_at::float8, :generation::bigint, :rotated_at::float8, :disabled_at::float8,
        :note::text, :version::bigint)
ON CONFLICT (id) DO UPDATE
SET generation = excluded.generation,
    rotated_at = excluded.rotated_at,
    disabled_at = excluded.disabled_at,
    note = excluded.note,
    version = excluded.version
WHERE e.version = excluded.version - 1
RETURNING id
