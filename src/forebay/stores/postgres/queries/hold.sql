-- Gives attempts more time, if the session lives. :holds rows [task id, token, hold_s], :session_id, :now. No reply.
-- Waits for nobody: a task that another transaction has locked is about to change.
UPDATE forebay_tasks AS t
SET attempt_deadline_at = :now + h.hold_s
FROM (
    SELECT t.ctid, h.hold_s
    FROM unnest(:holds.0::text[], :holds.1::bigint[], :holds.2::float8[]) AS h (id, token, hold_s)
    CROSS JOIN LATERAL (
        SELECT t.ctid
        FROM forebay_tasks AS t
        WHERE t.id = h.id AND t.claim_count = h.token AND coalesce(t.status = 'running', false)
        FOR UPDATE SKIP LOCKED
    ) AS t
    WHERE EXISTS (SELECT 1 FROM forebay_sessions WHERE id = :session_id AND ended_at IS NULL)
) AS h
WHERE t.ctid = h.ctid
