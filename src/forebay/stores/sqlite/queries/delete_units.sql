-- Deletes units with all that belongs to them; the last tokens of their tasks stay. :ids values, :now. No reply.
INSERT INTO buried
SELECT id, claim_count, :now
FROM tasks
WHERE claim_count > 0 AND seq IN (
    SELECT seq FROM tasks WHERE id IN (SELECT value FROM json_each(:ids))
    UNION
    SELECT seq FROM tasks WHERE job_id IN (SELECT value FROM json_each(:ids))
)
ON CONFLICT (id) DO UPDATE SET claim_count = excluded.claim_count, at = excluded.at;

DELETE FROM history WHERE task_seq IN (
    SELECT seq FROM tasks WHERE id IN (SELECT value FROM json_each(:ids))
    UNION
    SELECT seq FROM tasks WHERE job_id IN (SELECT value FROM json_each(:ids))
);

DELETE FROM payloads WHERE task_seq IN (
    SELECT seq FROM tasks WHERE id IN (SELECT value FROM json_each(:ids))
    UNION
    SELECT seq FROM tasks WHERE job_id IN (SELECT value FROM json_each(:ids))
);

DELETE FROM results WHERE task_seq IN (
    SELECT seq FROM tasks WHERE id IN (SELECT value FROM json_each(:ids))
    UNION
    SELECT seq FROM tasks WHERE job_id IN (SELECT value FROM json_each(:ids))
);

DELETE FROM tasks WHERE seq IN (
    SELECT seq FROM tasks WHERE id IN (SELECT value FROM json_each(:ids))
    UNION
    SELECT seq FROM tasks WHERE job_id IN (SELECT value FROM json_each(:ids))
);

DELETE FROM events WHERE job_id IN (SELECT value FROM json_each(:ids));

DELETE FROM jobs WHERE id IN (SELECT value FROM json_each(:ids))
