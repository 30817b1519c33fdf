-- Results for reuse. :tenant, :keys values. Reply: tenant, key, document, result_json, result_blob, created_at.
SELECT tenant, key, document, result_json, result_blob, created_at
FROM forebay_remembered
WHERE tenant = :tenant AND key = ANY (:keys::text[])
