-- How many tasks there are. :tenant or NULL. Reply: kind, status, count.
SELECT kind, status, count(*) FROM tasks WHERE :tenant IS NULL OR tenant = :tenant GROUP BY kind, status
