-- The names of the workers of sessions. :ids values. Reply: id, worker.
SELECT s.id, s.worker FROM json_each(:ids) AS asked CROSS JOIN sessions AS s ON s.id = asked.value
