-- Those of the blobs that something points at. :asked values, :tenant. Reply: sha256.
SELECT value
FROM json_each(:asked)
WHERE EXISTS (SELECT 1 FROM tasks WHERE payload_blob = value AND tenant = :tenant)
   OR EXISTS (SELECT 1 FROM tasks WHERE result_blob = value AND tenant = :tenant)
   OR EXISTS (SELECT 1 FROM jobs WHERE document = value AND tenant = :tenant)
   OR EXISTS (SELECT 1 FROM remembered WHERE result_blob = value AND tenant = :tenant)
