-- How many stand in line before a ready task. :kind, :lane, :priority, :tag, :available_at, :seq, :most. Reply: count.
-- One range for each of what decides, in turn: no single one would stop at the task.
SELECT count(*)
FROM (
    SELECT 1 FROM forebay_ready
    WHERE kind = :kind AND lane = :lane AND priority > :priority::integer
    UNION ALL
    SELECT 1 FROM forebay_ready
    WHERE kind = :kind AND lane = :lane AND priority = :priority::integer AND tag < :tag::bigint
    UNION ALL
    SELECT 1 FROM forebay_ready
    WHERE kind = :kind AND lane = :lane AND priority = :priority::integer AND tag = :tag::bigint
      AND available_at < :available_at::float8
    UNION ALL
    SELECT 1 FROM forebay_ready
    WHERE kind = :kind AND lane = :lane AND priority = :priority::integer AND tag = :tag::bigint
      AND available_at = :available_at::float8 AND seq + 0 < :seq::bigint
    LIMIT :most
) AS before
