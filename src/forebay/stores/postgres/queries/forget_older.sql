-- Forgets results that were remembered longer ago than :age_s. :age_s, :most, :now. Reply: document, a row for each.
DELETE FROM forebay_remembered
WHERE (tenant, key) IN (
    SELECT tenant, key
    FROM forebay_remembered
    WHERE created_at < :now - :age_s::float8
    LIMIT :most
    FOR UPDATE SKIP LOCKED
)
RETURNING document
