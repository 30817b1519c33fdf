-- Running tasks that are still held under the given token.
-- :asked rows [task id, token]. Reply: rows.Held.
SELECT t.seq, t.id, t.claim_count, t.attempt_count, t.retry_count, t.reschedule_count, t.lost_count,
       t.available_at, t.cancel_requested_at, t.job_id, t.role, t.chunk_index, t.generation, t.tenant,
       t.session_id, t.page_start, t.page_end
FROM jsonb_each(:asked) AS asked
CROSS JOIN tasks AS t ON t.id = asked.value ->> 0
WHERE t.status = 'running' AND t.claim_count = asked.value ->> 1
