-- Tasks and jobs that are stored already. :ids values. Reply: id, payload_hash, whether it is a job.
SELECT t.id, t.payload_hash, 0 FROM json_each(:ids) AS asked CROSS JOIN tasks AS t ON t.id = asked.value
UNION ALL
SELECT j.id, j.payload_hash, 1 FROM json_each(:ids) AS asked CROSS JOIN jobs AS j ON j.id = asked.value
