-- What was consumed. :tenant or NULL, :since. Reply: meter, unit, amount.
SELECT meter, unit, sum(amount)
FROM usage
WHERE at >= :since AND (:tenant IS NULL OR tenant = :tenant)
GROUP BY meter, unit
ORDER BY meter, unit
