-- Ends attempts of lone tasks for good, of those that are still held under their token. :endings rows [seq, token,
-- status, retry_count, reschedule_count, lost_count, error_class, error_text, result_blob, outcome, traceback,
-- result as JSON text], :session_id whose worker it was, :now. Reply: task id, token, tenant.
INSERT INTO history
SELECT t.seq, t.claim_count, t.attempt_count + 1, t.session_id,
       coalesce((SELECT worker FROM sessions WHERE id = :session_id), ''), t.claimed_at, :now, e.value ->> 9,
       e.value ->> 2, e.value ->> 3, e.value ->> 4, 1, NULL, e.value ->> 6, e.value ->> 7, e.value ->> 10
FROM jsonb_each(:endings) AS e
CROSS JOIN tasks AS t ON t.seq = e.value ->> 0
WHERE t.status = 'running' AND t.claim_count = e.value ->> 1;

INSERT INTO results
SELECT t.seq, e.value ->> 11
FROM jsonb_each(:endings) AS e
CROSS JOIN tasks AS t ON t.seq = e.value ->> 0
WHERE t.status = 'running' AND t.claim_count = e.value ->> 1 AND e.value ->> 11 IS NOT NULL
ON CONFLICT (task_seq) DO UPDATE SET result = excluded.result;

UPDATE tasks
SET status = e.value ->> 2,
    wait_reason = NULL,
    retry_count = e.value ->> 3,
    reschedule_count = e.value ->> 4,
    lost_count = e.value ->> 5,
    attempt_count = attempt_count + 1,
    tag = NULL,
    finished_at = :now,
    error_class = e.value ->> 6,
    error_text = e.value ->> 7,
    result_blob = e.value ->> 8
FROM jsonb_each(:endings) AS e
WHERE tasks.seq = e.value ->> 0 AND tasks.status = 'running' AND tasks.claim_count = e.value ->> 1
RETURNING id, claim_count, tenant
