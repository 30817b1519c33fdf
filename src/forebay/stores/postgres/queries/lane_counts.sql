-- Open tasks by lane, with its pause, be it over or not. :now.
-- Reply: lane, at or NULL, until or NULL, note or NULL, ready, later, running, when the oldest
-- ready one became due.
WITH counted (lane, ready, later, running, oldest_at) AS (
    SELECT lane, count(*), 0, 0, min(available_at) FROM forebay_ready GROUP BY kind, lane
    UNION ALL
    SELECT lane, count(*) FILTER (WHERE later_at <= :now), count(*) FILTER (WHERE later_at > :now), 0,
           min(later_at) FILTER (WHERE later_at <= :now)
    FROM forebay_tasks
    WHERE later_at IS NOT NULL
    GROUP BY lane
    UNION ALL
    SELECT t.lane, 0, 0, count(*), NULL
    FROM forebay_running AS r
    CROSS JOIN LATERAL (SELECT t.lane FROM forebay_tasks AS t WHERE t.seq = r.seq OFFSET 0) AS t
    GROUP BY t.lane
    UNION ALL
    SELECT lane, 0, 0, 0, NULL FROM forebay_pauses
)
SELECT c.lane, p.at, p.until, p.note, sum(c.ready)::bigint, sum(c.later)::bigint, sum(c.running)::bigint,
       min(c.oldest_at)
FROM counted AS c
LEFT JOIN forebay_pauses AS p ON p.lane = c.lane
GROUP BY c.lane, p.at, p.until, p.note
