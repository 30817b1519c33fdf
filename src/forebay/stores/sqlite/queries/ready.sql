-- The next tasks to claim in a lane. :kind, :lane, :most. Reply: priority, tag, available_at, seq.
SELECT priority, tag, available_at, seq
FROM tasks
WHERE status = 'pending' AND tag IS NOT NULL AND kind = :kind AND lane = :lane
ORDER BY priority DESC, tag, available_at
LIMIT :most
