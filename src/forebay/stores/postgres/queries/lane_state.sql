-- What holds back or uses a lane. :lane. Reply: running, at or NULL, until or NULL, note or NULL of its pause.
SELECT (
    SELECT count(*)
    FROM forebay_running AS r
    CROSS JOIN LATERAL (SELECT t.lane FROM forebay_tasks AS t WHERE t.seq = r.seq OFFSET 0) AS t
    WHERE t.lane = :lane
), p.at, p.until, p.note
FROM (SELECT 1) AS one
LEFT JOIN forebay_pauses AS p ON p.lane = :lane
