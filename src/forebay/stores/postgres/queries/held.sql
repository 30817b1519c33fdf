-- Running tasks that are still held under the given token, locked one after the other, as they are asked for.
-- :asked rows [task id, token]. Reply: rows.Held.
-- Whoever ended the claim meanwhile has counted it in the task's own row, which is looked at again under its lock.
SELECT t.seq, t.id, r.token, t.attempt_count, t.retry_count, t.reschedule_count, t.lost_count, t.available_at,
       t.cancel_requested_at, t.job_id, t.role, t.chunk_index, t.generation, t.tenant, r.session_id,
       t.page_start, t.page_end
FROM unnest(:asked.0::text[], :asked.1::bigint[]) AS asked (id, token)
CROSS JOIN LATERAL (
    SELECT t.*
    FROM forebay_tasks AS t
    WHERE t.id = asked.id AND t.claim_count = asked.token - 1 AND t.status = 'pending'
    FOR UPDATE
) AS t
CROSS JOIN LATERAL (
    SELECT r.token, r.session_id FROM forebay_running AS r WHERE r.seq = t.seq AND r.token = asked.token OFFSET 0
) AS r
