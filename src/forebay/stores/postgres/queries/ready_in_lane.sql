-- How many other tasks of a lane are due, in line or about to join it. :kind, :lane, :seq, :most, :now. Reply: count.
SELECT count(*)
FROM (
    SELECT 1 FROM forebay_ready WHERE kind = :kind AND lane = :lane
    UNION ALL
    SELECT 1 FROM forebay_tasks
    WHERE later_at IS NOT NULL AND lane = :lane AND later_at <= :now AND seq <> :seq::bigint
    LIMIT :most
) AS due
