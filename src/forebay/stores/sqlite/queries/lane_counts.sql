-- Open tasks by lane, with its pause, be it over or not. :now.
-- Reply: lane, at or NULL, until or NULL, note or NULL, ready, later, running, when the oldest
-- ready one became due.
WITH counted (lane, ready, later, running, oldest_at) AS (
    SELECT lane, count(*), 0, 0, min(available_at)
    FROM tasks
    WHERE status = 'pending' AND tag IS NOT NULL
    GROUP BY kind, lane
    UNION ALL
    SELECT lane, sum(available_at <= :now), sum(available_at > :now), 0,
           min(available_at) FILTER (WHERE available_at <= :now)
    FROM tasks
    WHERE status = 'pending' AND tag IS NULL
    GROUP BY lane
    UNION ALL
    SELECT lane, 0, 0, count(*), NULL FROM tasks WHERE status = 'running' GROUP BY lane
    UNION ALL
    SELECT lane, 0, 0, 0, NULL FROM pauses
)
SELECT c.lane, p.at, p.until, p.note, sum(c.ready), sum(c.later), sum(c.running), min(c.oldest_at)
FROM counted AS c
LEFT JOIN pauses AS p ON p.lane = c.lane
GROUP BY c.lane
