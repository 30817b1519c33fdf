-- Rewrites tasks after an action of a person. :rows [id, status, generation, tag, available_at, wait_reason,
-- retry_count, reschedule_count, lost_count, finished_at, cancel_requested_at, error_class, error_text,
-- result_blob, requested_retry_count]. Those that are open again have no result any more. No reply.
UPDATE tasks
SET status = r.value ->> 1,
    generation = r.value ->> 2,
    tag = r.value ->> 3,
    available_at = r.value ->> 4,
    wait_reason = r.value ->> 5,
    retry_count = r.value ->> 6,
    reschedule_count = r.value ->> 7,
    lost_count = r.value ->> 8,
    finished_at = r.value ->> 9,
    cancel_requested_at = r.value ->> 10,
    error_class = r.value ->> 11,
    error_text = r.value ->> 12,
    result_blob = r.value ->> 13,
    requested_retry_count = r.value ->> 14
FROM jsonb_each(:rows) AS r
WHERE tasks.id = r.value ->> 0;

DELETE FROM results
WHERE task_seq IN (
    SELECT t.seq FROM jsonb_each(:rows) AS r CROSS JOIN tasks AS t ON t.id = r.value ->> 0 WHERE t.status = 'pending'
)
