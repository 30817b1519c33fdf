-- How many flows of a tenant stand in a line, counted up to :most by one seek each. :tenants rows [kind, lane, priority,
-- tenant, first flow, the one behind the last]. Reply: kind, lane, priority, tenant, count.
SELECT t.value ->> 0, t.value ->> 1, t.value ->> 2, t.value ->> 3, (
    WITH RECURSIVE found (flow, place) AS (
        SELECT (
            SELECT min(flow) FROM tasks
            WHERE status = 'pending' AND tag IS NOT NULL AND flow IS NOT NULL AND kind = t.value ->> 0
              AND lane = t.value ->> 1 AND priority = t.value ->> 2
              AND flow >= t.value ->> 4 AND flow < t.value ->> 5
        ), 1
        UNION ALL
        SELECT (
            SELECT min(flow) FROM tasks
            WHERE status = 'pending' AND tag IS NOT NULL AND flow IS NOT NULL AND kind = t.value ->> 0
              AND lane = t.value ->> 1 AND priority = t.value ->> 2
              AND flow > found.flow AND flow < t.value ->> 5
        ), found.place + 1
        FROM found
        WHERE found.flow IS NOT NULL AND found.place < :most
    )
    SELECT count(flow) FROM found
)
FROM jsonb_each(:tenants) AS t
