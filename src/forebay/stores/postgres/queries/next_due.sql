-- When the next delayed task of each kind becomes ready. :kinds values. Reply: available_at or NULL.
SELECT (
    SELECT t.available_at FROM forebay_tasks AS t
    WHERE t.status = 'pending' AND t.tag IS NULL AND t.kind = k.kind
    ORDER BY t.available_at
    LIMIT 1
)
FROM unnest(:kinds::text[]) AS k (kind)
