-- The highest tag of each flow in its line. :flows rows [kind, lane, priority, flow].
-- Reply: kind, lane, priority, flow, tag or NULL.
SELECT f.kind, f.lane, f.priority, f.flow, (
    SELECT r.tag FROM forebay_ready AS r
    WHERE r.flow IS NOT NULL
      AND r.kind = f.kind AND r.lane = f.lane AND r.priority = f.priority AND r.flow = f.flow
    ORDER BY r.tag DESC
    LIMIT 1
)
FROM unnest(:flows.0::text[], :flows.1::text[], :flows.2::integer[], :flows.3::text[])
    AS f (kind, lane, priority, flow)
