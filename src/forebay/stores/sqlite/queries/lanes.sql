-- Lanes of a kind that have ready tasks, by one seek each. :kind, :most. Reply: lane.
WITH RECURSIVE found (lane) AS (
    SELECT min(lane) FROM tasks WHERE status = 'pending' AND tag IS NOT NULL AND kind = :kind
    UNION ALL
    SELECT (
        SELECT min(lane) FROM tasks
        WHERE status = 'pending' AND tag IS NOT NULL AND kind = :kind AND lane > found.lane
    )
    FROM found
    WHERE found.lane IS NOT NULL
    LIMIT :most
)
SELECT lane FROM found WHERE lane IS NOT NULL
