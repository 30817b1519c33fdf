-- How many tasks there are. :tenant or NULL. Reply: kind, status, count.
SELECT kind, status, sum(counted)::bigint
FROM (
    SELECT kind, status, count(*) AS counted
    FROM forebay_tasks
    WHERE :tenant::text IS NULL OR tenant = :tenant
    GROUP BY kind, status
    UNION ALL
    SELECT t.kind, s.status, sum(s.counted)
    FROM forebay_running AS r
    CROSS JOIN LATERAL (SELECT t.kind, t.tenant FROM forebay_tasks AS t WHERE t.seq = r.seq OFFSET 0) AS t
    CROSS JOIN (VALUES ('running', 1), ('pending', -1)) AS s (status, counted)
    WHERE :tenant::text IS NULL OR t.tenant = :tenant
    GROUP BY t.kind, s.status
) AS each
GROUP BY kind, status
HAVING sum(counted) > 0
