-- Locks lone tasks in the order of their ids, and their places in line. :ids values. No reply.
-- One whose lock had to be waited for may stand in line again, unseen: asked a second time, this has that place, too.
SELECT 1
FROM (SELECT seq FROM forebay_tasks WHERE id = ANY (:ids::text[]) AND job_id IS NULL ORDER BY id FOR UPDATE) AS t
CROSS JOIN LATERAL (SELECT 1 FROM forebay_ready AS r WHERE r.seq = t.seq FOR UPDATE) AS r
