-- How many tasks there are. :tenant or NULL. Reply: kind, status, count.
SELECT kind, status, count(*)
FROM forebay_tasks
WHERE :tenant::text IS NULL OR tenant = :tenant
GROUP BY kind, status
