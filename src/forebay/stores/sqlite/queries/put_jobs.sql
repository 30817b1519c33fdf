-- Stores what changed of jobs. :rows [rows.JOB_NAMES …]. No reply.
UPDATE jobs
SET status = r.value ->> 3,
    generation = r.value ->> 4,
    chunk_count = r.value ->> 13,
    open_count = r.value ->> 14,
    running_count = r.value ->> 15,
    completed_count = r.value ->> 16,
    failed_count = r.value ->> 17,
    canceled_count = r.value ->> 18,
    event_count = r.value ->> 19,
    started_at = r.value ->> 20,
    finished_at = r.value ->> 21,
    cancel_requested_at = r.value ->> 22,
    merge_id = r.value ->> 23,
    error_class = r.value ->> 24,
    error_text = r.value ->> 25
FROM jsonb_each(:rows) AS r
WHERE jobs.id = r.value ->> 0
