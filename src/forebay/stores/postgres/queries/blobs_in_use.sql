-- Those of the blobs that something points at. :asked values, :tenant. Reply: sha256.
SELECT a.blob
FROM unnest(:asked::text[]) AS a (blob)
WHERE EXISTS (SELECT 1 FROM forebay_tasks AS t WHERE t.payload_blob = a.blob AND t.tenant = :tenant)
   OR EXISTS (SELECT 1 FROM forebay_tasks AS t WHERE t.result_blob = a.blob AND t.tenant = :tenant)
   OR EXISTS (SELECT 1 FROM forebay_jobs AS j WHERE j.document = a.blob AND j.tenant = :tenant)
   OR EXISTS (SELECT 1 FROM forebay_remembered AS r WHERE r.result_blob = a.blob AND r.tenant = :tenant)
