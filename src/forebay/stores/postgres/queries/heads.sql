-- The lowest tag in each line. :lines rows [kind, lane, priority]. Reply: kind, lane, priority, tag or NULL.
SELECT l.kind, l.lane, l.priority, (
    SELECT r.tag FROM forebay_ready AS r
    WHERE r.kind = l.kind AND r.lane = l.lane AND r.priority = l.priority
    ORDER BY r.tag
    LIMIT 1
)
FROM unnest(:lines.0::text[], :lines.1::text[], :lines.2::integer[]) AS l (kind, lane, priority)
