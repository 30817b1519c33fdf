-- Delayed tasks whose time has come, longest due first. :kind, :now, :most. Reply: seq, kind, lane, priority, flow.
SELECT seq, kind, lane, priority, flow
FROM tasks
WHERE status = 'pending' AND tag IS NULL AND kind = :kind AND available_at <= :now
ORDER BY available_at
LIMIT :most
