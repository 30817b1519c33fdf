-- Jobs that are stored already. :ids JSON [id, …]. Reply: id, payload_hash.
SELECT j.id, j.payload_hash FROM json_each(:ids) AS asked CROSS JOIN jobs AS j ON j.id = asked.value
