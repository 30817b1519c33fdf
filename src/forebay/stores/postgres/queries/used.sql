-- What was consumed. :tenant or NULL, :since. Reply: meter, unit, amount.
SELECT meter, unit, sum(amount)
FROM forebay_usage
WHERE at >= :since::float8 AND (:tenant::text IS NULL OR tenant = :tenant)
GROUP BY meter, unit
ORDER BY meter, unit
