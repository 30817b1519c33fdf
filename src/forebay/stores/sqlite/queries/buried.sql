-- The last tokens of deleted tasks. :ids values. Reply: id, claim_count.
SELECT b.id, b.claim_count
FROM json_each(:ids) AS asked
CROSS JOIN buried AS b ON b.id = asked.value
WHERE EXISTS (SELECT 1 FROM buried)
