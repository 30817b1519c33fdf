-- Tasks and jobs that are stored already. :ids values. Reply: id, payload_hash, whether it is a job.
SELECT id, payload_hash, false FROM forebay_tasks WHERE id = ANY (:ids::text[])
UNION ALL
SELECT id, payload_hash, true FROM forebay_jobs WHERE id = ANY (:ids::text[])
