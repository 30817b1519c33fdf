-- Keeps results for reuse; the first one under a key stays.
-- :rows [tenant, key, document, result_json or null, result_blob or null], :now. No reply.
INSERT INTO forebay_remembered
SELECT r.*, :now
FROM unnest(:rows.0::text[], :rows.1::text[], :rows.2::text[], :rows.3::text[], :rows.4::text[]) AS r
ON CONFLICT (tenant, key) DO NOTHING
