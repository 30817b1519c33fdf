-- The attempts of a task. :id. Reply: Attempt's fields but the first.
SELECT h.token, h.attempt, h.session_id, h.worker, h.claimed_at, h.ended_at, h.outcome, h.status, h.retry_count,
       h.reschedule_count, h.settled, h.available_at, h.error_class, h.error_text, h.traceback
FROM forebay_history AS h
WHERE h.task_seq = (SELECT t.seq FROM forebay_tasks AS t WHERE t.id = :id)
ORDER BY h.token
