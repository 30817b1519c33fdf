-- The next tasks to claim in a lane. :kind, :lane, :most. Reply: lines.Ready.
SELECT priority, tag, available_at, seq, job_id, role
FROM tasks
WHERE status = 'pending' AND tag IS NOT NULL AND kind = :kind AND lane = :lane
ORDER BY priority DESC, tag, available_at
LIMIT :most
