-- Lanes of kinds that have ready tasks, by one seek each; paused ones take no room from the others.
-- :kinds values, :most a kind, about. Reply: kind, lane.
WITH RECURSIVE found (kind, lane) AS (
    SELECT k.value, (
        SELECT min(lane) FROM tasks WHERE status = 'pending' AND tag IS NOT NULL AND kind = k.value
    )
    FROM json_each(:kinds) AS k
    UNION ALL
    SELECT found.kind, (
        SELECT min(lane) FROM tasks
        WHERE status = 'pending' AND tag IS NOT NULL AND kind = found.kind AND lane > found.lane
    )
    FROM found
    WHERE found.lane IS NOT NULL
    LIMIT (:most + 1 + (SELECT count(*) FROM pauses)) * json_array_length(:kinds)
)
SELECT kind, lane FROM found WHERE lane IS NOT NULL
