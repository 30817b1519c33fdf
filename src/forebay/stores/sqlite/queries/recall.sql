-- Results for reuse. :tenant, :keys values. Reply: tenant, key, document, result_json, result_blob, created_at.
SELECT tenant, key, document, result_json, result_blob, created_at
FROM remembered
WHERE tenant = :tenant AND key IN (SELECT value FROM json_each(:keys))
