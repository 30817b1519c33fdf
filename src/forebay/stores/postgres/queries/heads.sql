-- The lowest tag in each line. :lines rows [kind, lane, priority]. Reply: kind, lane, priority, tag or NULL.
SELECT l.kind, l.lane, l.priority, (
    SELECT t.tag FROM forebay_tasks AS t
    WHERE t.status = 'pending' AND t.tag IS NOT NULL
      AND t.kind = l.kind AND t.lane = l.lane AND t.priority = l.priority
    ORDER BY t.tag
    LIMIT 1
)
FROM unnest(:lines.0::text[], :lines.1::text[], :lines.2::integer[]) AS l (kind, lane, priority)
