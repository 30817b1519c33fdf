-- How many stand in line before a task, all of them counted. :kind, :lane, :priority, :tag or NULL, :available_at, :seq.
-- Reply: count, NULL for the size of the lane, which matters to an estimate only, whether it is an estimate.
SELECT (
    SELECT count(*) FROM tasks
    WHERE status = 'pending' AND tag IS NOT NULL AND kind = :kind AND lane = :lane
      AND priority > CASE WHEN :tag IS NULL THEN -1000 ELSE :priority END
) + (
    SELECT count(*) FROM tasks
    WHERE status = 'pending' AND tag IS NOT NULL AND kind = :kind AND lane = :lane AND priority = :priority
      AND tag < :tag
) + (
    SELECT count(*) FROM tasks
    WHERE status = 'pending' AND tag IS NOT NULL AND kind = :kind AND lane = :lane AND priority = :priority
      AND tag = :tag AND available_at < :available_at
) + (
    SELECT count(*) FROM tasks
    WHERE status = 'pending' AND tag IS NOT NULL AND kind = :kind AND lane = :lane AND priority = :priority
      AND tag = :tag AND available_at = :available_at AND seq < :seq
), NULL, 0
