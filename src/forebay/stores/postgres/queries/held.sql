-- Running tasks that are still held under the given token, locked one after the other, as they are asked for.
-- :asked rows [task id, token]. Reply: rows.Held.
-- The coalesce hides what an index of few rows might be chosen for: whichever that is when the plan is made.
SELECT t.*
FROM unnest(:asked.0::text[], :asked.1::bigint[]) AS asked (id, token)
CROSS JOIN LATERAL (
    SELECT t.seq, t.id, t.claim_count, t.attempt_count, t.retry_count, t.reschedule_count, t.lost_count,
           t.available_at, t.cancel_requested_at, t.job_id, t.role, t.chunk_index, t.generation, t.tenant,
           t.session_id
    FROM forebay_tasks AS t
    WHERE t.id = asked.id AND t.claim_count = asked.token AND coalesce(t.status = 'running', false)
    FOR UPDATE
) AS t
