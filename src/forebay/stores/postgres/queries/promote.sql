-- Makes delayed tasks ready, but for those that another transaction has. :given rows [seq, tag]. No reply.
WITH promoted AS (
    UPDATE forebay_tasks AS t
    SET tag = g.tag, wait_reason = NULL, later_at = NULL
    FROM (
        SELECT t.ctid, g.tag
        FROM unnest(:given.0::bigint[], :given.1::bigint[]) AS g (seq, tag)
        CROSS JOIN LATERAL (
            SELECT t.ctid
            FROM forebay_tasks AS t
            WHERE t.seq = g.seq AND coalesce(t.status = 'pending' AND t.tag IS NULL, false)
            FOR UPDATE SKIP LOCKED
        ) AS t
    ) AS g
    WHERE t.ctid = g.ctid
    RETURNING t.seq, t.kind, t.lane, t.priority, t.tag, t.available_at, t.flow, t.job_id, t.role
)
INSERT INTO forebay_ready
SELECT seq, kind, lane, priority, tag, available_at, flow, job_id, role FROM promoted
