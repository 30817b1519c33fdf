-- How many flows of a tenant stand in a line, counted up to :most by one seek each. :tenants rows [kind, lane, priority,
-- tenant, first flow, the one behind the last]. Reply: kind, lane, priority, tenant, count.
SELECT t.kind, t.lane, t.priority, t.tenant, (
    WITH RECURSIVE found (flow, place) AS (
        SELECT (
            SELECT r.flow FROM forebay_ready AS r
            WHERE r.flow IS NOT NULL AND r.kind = t.kind AND r.lane = t.lane AND r.priority = t.priority
              AND r.flow >= t.first AND r.flow < t.beyond
            ORDER BY r.flow
            LIMIT 1
        ), 1::bigint
        UNION ALL
        SELECT (
            SELECT r.flow FROM forebay_ready AS r
            WHERE r.flow IS NOT NULL AND r.kind = t.kind AND r.lane = t.lane AND r.priority = t.priority
              AND r.flow > f.flow AND r.flow < t.beyond
            ORDER BY r.flow
            LIMIT 1
        ), f.place + 1
        FROM found AS f
        WHERE f.flow IS NOT NULL AND f.place < :most::bigint
    )
    SELECT count(flow) FROM found
)
FROM unnest(
    :tenants.0::text[], :tenants.1::text[], :tenants.2::integer[], :tenants.3::text[], :tenants.4::text[],
    :tenants.5::text[]
) AS t (kind, lane, priority, tenant, first, beyond)
