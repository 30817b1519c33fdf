-- Delayed tasks whose time has come, longest due first. :kind, :most, :now.
-- Reply: seq, kind, lane, priority, flow, job_id, tenant.
SELECT seq, kind, lane, priority, flow, job_id, tenant
FROM tasks
WHERE status = 'pending' AND tag IS NULL AND kind = :kind AND available_at <= :now
ORDER BY available_at
LIMIT :most
