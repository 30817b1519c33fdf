-- The lowest tag in each line. :lines rows [kind, lane, priority]. Reply: kind, lane, priority, tag or NULL.
SELECT line.value ->> 0, line.value ->> 1, line.value ->> 2, (
    SELECT tag FROM tasks
    WHERE status = 'pending' AND tag IS NOT NULL
      AND kind = line.value ->> 0 AND lane = line.value ->> 1 AND priority = line.value ->> 2
    ORDER BY tag
    LIMIT 1
)
FROM jsonb_each(:lines) AS line
