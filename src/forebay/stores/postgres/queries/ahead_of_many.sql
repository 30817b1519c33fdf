-- About how many stand in line before a task, by a sample of about 1600 pages of the table, always the same ones.
-- :kind, :lane, :priority, :tag or NULL, :available_at, :seq. Reply: count, how many there are at most or NULL where
-- the count is surely below that, whether it is an estimate.
-- The number of pages in the sample is off by 2.5 %, so only the places at the end of a lane could lie beyond it. There,
-- and where the lane is short, the lane is counted.
WITH size AS MATERIALIZED (
    SELECT least(100, 160000.0 / greatest(1, pg_relation_size(to_regclass('forebay_ready')) / 8192)) AS share
), sampled AS MATERIALIZED (
    SELECT count(*) AS lane, count(*) FILTER (
        WHERE :tag::bigint IS NULL OR r.priority > :priority::integer OR (
            r.priority = :priority::integer
            AND (r.tag, r.available_at, r.seq) < (:tag::bigint, :available_at::float8, :seq::bigint)
        )
    ) AS ahead
    FROM forebay_ready AS r TABLESAMPLE SYSTEM (
        least(100, 160000.0 / greatest(1, pg_relation_size(to_regclass('forebay_ready')) / 8192))
    ) REPEATABLE (0)
    WHERE r.kind = :kind AND r.lane = :lane
)
SELECT round(f.ahead * 100 / s.share)::bigint, CASE
    WHEN s.share < 100 AND (f.ahead > 0.85 * f.lane OR f.lane * 100 / s.share < 100000)
    THEN (SELECT count(*) - (:tag::bigint IS NOT NULL)::integer FROM forebay_ready WHERE kind = :kind AND lane = :lane)
END, s.share < 100
FROM size AS s
CROSS JOIN sampled AS f
