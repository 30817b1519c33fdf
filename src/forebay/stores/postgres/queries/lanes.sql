-- Lanes of kinds that have ready tasks, by one seek each; paused ones take no room from the others.
-- :kinds values, :most a kind, about. Reply: kind, lane.
WITH RECURSIVE found (kind, lane, place) AS (
    SELECT k.kind COLLATE "C", (
        SELECT r.lane FROM forebay_ready AS r
        WHERE r.kind = k.kind
        ORDER BY r.lane
        LIMIT 1
    ), 1::bigint
    FROM unnest(:kinds::text[]) AS k (kind)
    UNION ALL
    SELECT f.kind, (
        SELECT r.lane FROM forebay_ready AS r
        WHERE r.kind = f.kind AND r.lane > f.lane
        ORDER BY r.lane
        LIMIT 1
    ), f.place + 1
    FROM found AS f
    WHERE f.lane IS NOT NULL AND f.place < :most::bigint + (SELECT count(*) FROM forebay_pauses)
)
SELECT kind, lane FROM found WHERE lane IS NOT NULL
