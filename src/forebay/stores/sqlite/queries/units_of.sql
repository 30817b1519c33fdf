-- The jobs that tasks belong to. :ids values. Reply: task id, job_id or NULL.
SELECT t.id, t.job_id FROM json_each(:ids) AS asked CROSS JOIN tasks AS t ON t.id = asked.value
