-- When the next delayed task of each kind becomes ready. :kinds values. Reply: available_at or NULL.
SELECT (SELECT min(available_at) FROM tasks WHERE status = 'pending' AND tag IS NULL AND kind = k.value)
FROM json_each(:kinds) AS k
