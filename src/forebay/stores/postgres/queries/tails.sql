-- The highest tag of each flow in its line. :flows rows [kind, lane, priority, flow].
-- Reply: kind, lane, priority, flow, tag or NULL.
SELECT f.kind, f.lane, f.priority, f.flow, (
    SELECT t.tag FROM forebay_tasks AS t
    WHERE t.status = 'pending' AND t.tag IS NOT NULL AND t.flow IS NOT NULL
      AND t.kind = f.kind AND t.lane = f.lane AND t.priority = f.priority AND t.flow = f.flow
    ORDER BY t.tag DESC
    LIMIT 1
)
FROM unnest(:flows.0::text[], :flows.1::text[], :flows.2::integer[], :flows.3::text[])
    AS f (kind, lane, priority, flow)
