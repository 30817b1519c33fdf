-- How many stand in line before a ready task. :kind, :lane, :priority, :tag, :available_at, :seq, :most. Reply: count.
-- One range for each of what decides, in turn: no single one would stop at the task.
SELECT count(*)
FROM (
    SELECT 1 FROM tasks
    WHERE status = 'pending' AND tag IS NOT NULL AND kind = :kind AND lane = :lane AND priority > :priority
    UNION ALL
    SELECT 1 FROM tasks
    WHERE status = 'pending' AND tag IS NOT NULL AND kind = :kind AND lane = :lane AND priority = :priority
      AND tag < :tag
    UNION ALL
    SELECT 1 FROM tasks
    WHERE status = 'pending' AND tag IS NOT NULL AND kind = :kind AND lane = :lane AND priority = :priority
      AND tag = :tag AND available_at < :available_at
    UNION ALL
    SELECT 1 FROM tasks
    WHERE status = 'pending' AND tag IS NOT NULL AND kind = :kind AND lane = :lane AND priority = :priority
      AND tag = :tag AND available_at = :available_at AND seq < :seq
    LIMIT :most
)
