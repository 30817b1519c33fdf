-- Gives attempts more time, if the session lives. :holds rows [task id, token, hold_s], :session_id, :now. No reply.
-- Waits for nobody: a claim that another transaction has locked is about to end.
UPDATE forebay_running AS r
SET attempt_deadline_at = :now + h.hold_s
FROM (
    SELECT r.ctid, h.hold_s
    FROM unnest(:holds.0::text[], :holds.1::bigint[], :holds.2::float8[]) AS h (id, token, hold_s)
    CROSS JOIN LATERAL (SELECT t.seq FROM forebay_tasks AS t WHERE t.id = h.id OFFSET 0) AS t
    CROSS JOIN LATERAL (
        SELECT r.ctid FROM forebay_running AS r WHERE r.seq = t.seq AND r.token = h.token FOR UPDATE SKIP LOCKED
    ) AS r
    WHERE EXISTS (SELECT 1 FROM forebay_sessions WHERE id = :session_id AND ended_at IS NULL)
) AS h
WHERE r.ctid = h.ctid
