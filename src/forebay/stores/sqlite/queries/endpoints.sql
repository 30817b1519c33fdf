-- Endpoints of callbacks, the oldest first. :tenant or null for all. Reply: rows.ENDPOINT_NAMES.
SELECT id, tenant, url, created_at, generation, rotated_at, disabled_at, note, version
FROM endpoints
WHERE :tenant IS NULL OR tenant = :tenant
ORDER BY created_at, id
