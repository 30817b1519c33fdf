-- Keeps results for reuse; the first one under a key stays.
-- :rows [tenant, key, document, result_json or null, result_blob or null], :now. No reply.
INSERT INTO remembered
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, :now FROM jsonb_each(:rows) WHERE true
ON CONFLICT (tenant, key) DO NOTHING
