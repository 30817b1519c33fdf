-- Delayed tasks whose time has come, longest due first. :kind, :most, :now.
-- Reply: seq, kind, lane, priority, flow, job_id, tenant.
SELECT seq, kind, lane, priority, flow, job_id, tenant
FROM forebay_tasks
WHERE later_at IS NOT NULL AND kind = :kind AND later_at <= :now
ORDER BY later_at
LIMIT :most
