-- Gives attempts more time. :holds JSON [[task id, token, hold_s], …], :now.
UPDATE tasks SET attempt_deadline_at = :now + (h.value ->> 2)
FROM jsonb_each(:holds) AS h
WHERE tasks.id = h.value ->> 0 AND claim_count = h.value ->> 1 AND status = 'running'
