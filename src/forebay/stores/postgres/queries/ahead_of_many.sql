-- About how many stand in line before a task, by a sample of about 1600 pages of the table, always the same ones.
-- :kind, :lane, :priority, :tag or NULL, :available_at, :seq. Reply: count, whether it is an estimate.
WITH size AS MATERIALIZED (
    SELECT least(100, 160000.0 / greatest(1, pg_relation_size(to_regclass('forebay_ready')) / 8192)) AS share
)
SELECT round(count(*) * 100 / s.share)::bigint, s.share < 100
FROM size AS s
LEFT JOIN (
    SELECT 1 AS one
    FROM forebay_ready AS r TABLESAMPLE SYSTEM (
        least(100, 160000.0 / greatest(1, pg_relation_size(to_regclass('forebay_ready')) / 8192))
    ) REPEATABLE (0)
    WHERE r.kind = :kind AND r.lane = :lane AND (
        :tag::bigint IS NULL OR r.priority > :priority::integer OR (
            r.priority = :priority::integer
            AND (r.tag, r.available_at, r.seq) < (:tag::bigint, :available_at::float8, :seq::bigint)
        )
    )
) AS ahead ON true
GROUP BY s.share
