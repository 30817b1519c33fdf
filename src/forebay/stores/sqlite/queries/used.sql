-- What was consumed. :tenant or NULL. Reply: meter, unit, amount.
SELECT meter, unit, sum(amount)
FROM usage
WHERE :tenant IS NULL OR tenant = :tenant
GROUP BY meter, unit
ORDER BY meter, unit
