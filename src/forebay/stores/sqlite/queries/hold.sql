-- Gives attempts more time, if the session lives. :holds rows [task id, token, hold_s], :session_id, :now. No reply.
UPDATE tasks SET attempt_deadline_at = :now + (h.value ->> 2)
FROM jsonb_each(:holds) AS h
WHERE tasks.id = h.value ->> 0 AND claim_count = h.value ->> 1 AND status = 'running'
  AND EXISTS (SELECT 1 FROM sessions WHERE id = :session_id AND ended_at IS NULL)
