-- Ends attempts, with their history and results. :endings rows [seq, status, wait_reason, retry_count,
-- reschedule_count, lost_count, attempt_count, available_at, keeps place (0 or 1), finished_at, error_class,
-- error_text, result_blob, outcome, settled (0 or 1), counted (0 or 1), worker, traceback],
-- :results rows [seq, JSON text or null], none or one for each, :now. No reply.
UPDATE tasks
SET status = e.value ->> 1,
    wait_reason = e.value ->> 2,
    retry_count = e.value ->> 3,
    reschedule_count = e.value ->> 4,
    lost_count = e.value ->> 5,
    attempt_count = e.value ->> 6,
    available_at = e.value ->> 7,
    tag = CASE WHEN e.value ->> 8 THEN tag END,
    finished_at = e.value ->> 9,
    error_class = e.value ->> 10,
    error_text = e.value ->> 11,
    result_blob = e.value ->> 12
FROM jsonb_each(:endings) AS e
WHERE tasks.seq = e.value ->> 0;

INSERT INTO history
SELECT t.seq, t.claim_count, e.value ->> 6, t.session_id, e.value ->> 16, t.claimed_at, :now, e.value ->> 13,
       e.value ->> 1, e.value ->> 3, e.value ->> 4, e.value ->> 14,
       CASE WHEN e.value ->> 1 = 'pending' THEN e.value ->> 7 END, e.value ->> 10, e.value ->> 11, e.value ->> 17
FROM jsonb_each(:endings) AS e
CROSS JOIN tasks AS t ON t.seq = e.value ->> 0
WHERE e.value ->> 15;

INSERT INTO results
SELECT value ->> 0, value ->> 1 FROM jsonb_each(:results) WHERE value ->> 1 IS NOT NULL
ON CONFLICT (task_seq) DO UPDATE SET result = excluded.result
