-- An endpoint of callbacks. :id. Reply: rows.ENDPOINT_NAMES.
SELECT id, tenant, url, created_at, generation, rotated_at, disabled_at, note, version
FROM endpoints
WHERE id = :id
