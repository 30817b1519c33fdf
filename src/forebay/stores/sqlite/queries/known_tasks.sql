-- Tasks that are stored already. :ids JSON [id, …]. Reply: id, payload_hash.
SELECT t.id, t.payload_hash FROM json_each(:ids) AS asked CROSS JOIN tasks AS t ON t.id = asked.value
