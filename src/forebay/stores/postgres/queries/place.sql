-- Where a pending task stands. :id. Reply: kind, lane, priority, tag or NULL, available_at, seq.
SELECT p.kind, p.lane, p.priority, p.tag, p.available_at, p.seq
FROM (SELECT t.seq FROM forebay_tasks AS t WHERE t.id = :id OFFSET 0) AS own
CROSS JOIN LATERAL (SELECT p.* FROM forebay_present AS p WHERE p.seq = own.seq OFFSET 0) AS p
WHERE p.status = 'pending'
