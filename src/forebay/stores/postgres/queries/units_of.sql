-- The jobs that tasks belong to. :ids values. Reply: task id, job_id or NULL.
SELECT id, job_id FROM forebay_tasks WHERE id = ANY (:ids::text[])
