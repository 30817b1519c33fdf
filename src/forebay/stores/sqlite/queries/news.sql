-- Events of many jobs. :asked rows [place, job id, number before the first, number of the last].
-- Reply: place, number, at, name, fields as JSON text; those of a place in order.
SELECT asked.value ->> 0, e.number, e.at, e.name, e.fields
FROM json_each(:asked) AS asked
CROSS JOIN events AS e
    ON e.job_id = asked.value ->> 1 AND e.number > asked.value ->> 2 AND e.number <= asked.value ->> 3
ORDER BY asked.key, e.number
