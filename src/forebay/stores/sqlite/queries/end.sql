-- Ends attempts. :endings JSON [[seq, status, wait_reason, retry_count, reschedule_count, lost_count,
-- attempt_count, available_at, keeps place (0 or 1), finished_at, error_class, error_text, result_blob,
-- outcome, settled (0 or 1), counted (0 or 1), worker, traceback], …]; the last five are for add_history.
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
WHERE tasks.seq = e.value ->> 0
