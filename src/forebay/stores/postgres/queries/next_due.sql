-- When the next delayed task of each kind becomes ready. :kinds values. Reply: available_at or NULL.
SELECT (
    SELECT t.later_at FROM forebay_tasks AS t
    WHERE t.later_at IS NOT NULL AND t.kind = k.kind
    ORDER BY t.later_at
    LIMIT 1
)
FROM unnest(:kinds::text[]) AS k (kind)
