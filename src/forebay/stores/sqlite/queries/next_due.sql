-- When the next delayed task of a kind becomes ready. :kind. Reply: available_at or NULL.
SELECT min(available_at) FROM tasks WHERE status = 'pending' AND tag IS NULL AND kind = :kind
