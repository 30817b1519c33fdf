-- The highest tag of each flow in its line. :flows rows [kind, lane, priority, flow].
-- Reply: kind, lane, priority, flow, tag or NULL.
SELECT f.value ->> 0, f.value ->> 1, f.value ->> 2, f.value ->> 3, (
    SELECT tag FROM tasks
    WHERE status = 'pending' AND tag IS NOT NULL AND flow IS NOT NULL
      AND kind = f.value ->> 0 AND lane = f.value ->> 1 AND priority = f.value ->> 2 AND flow = f.value ->> 3
    ORDER BY tag DESC
    LIMIT 1
)
FROM jsonb_each(:flows) AS f
