-- Drops the results of tasks that are open again. :ids JSON [task id, …].
DELETE FROM results
WHERE task_seq IN (SELECT seq FROM tasks WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'pending')
