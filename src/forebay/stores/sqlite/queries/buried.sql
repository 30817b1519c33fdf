-- The last tokens of deleted tasks. :ids JSON [id, …]. Reply: id, claim_count.
SELECT b.id, b.claim_count FROM json_each(:ids) AS asked CROSS JOIN buried AS b ON b.id = asked.value
