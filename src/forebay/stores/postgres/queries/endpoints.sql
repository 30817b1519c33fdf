-- Endpoints of callbacks, the oldest first. :tenant or null for all. Reply: rows.ENDPOINT_NAMES.
SELECT id, tenant, url, created_at, generation, rotated_at, disabled_at, note, version
FROM forebay_endpoints
WHERE :tenant::text IS NULL OR tenant = :tenant::text
ORDER BY created_at, id
