-- What holds back or uses a lane. :lane. Reply: running, at or NULL, until or NULL, note or NULL of its pause.
SELECT (SELECT count(*) FROM tasks WHERE status = 'running' AND lane = :lane), p.at, p.until, p.note
FROM (SELECT 1) AS one
LEFT JOIN pauses AS p ON p.lane = :lane
