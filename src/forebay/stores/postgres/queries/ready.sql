-- The next tasks to claim in a lane. :kind, :lane, :most. Reply: lines.Ready.
SELECT priority, tag, available_at, seq, job_id, role
FROM forebay_ready
WHERE kind = :kind AND lane = :lane
ORDER BY priority DESC, tag, available_at, seq + 0
LIMIT :most
