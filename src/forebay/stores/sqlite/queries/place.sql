-- Where a pending task stands. :id. Reply: kind, lane, priority, tag or NULL, available_at, seq.
SELECT kind, lane, priority, tag, available_at, seq FROM tasks WHERE id = :id AND status = 'pending'
