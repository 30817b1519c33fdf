-- Forgets results that were remembered longer ago than :age_s. :age_s, :most, :now. Reply: document, a row for each.
DELETE FROM remembered
WHERE (tenant, key) IN (SELECT tenant, key FROM remembered WHERE created_at < :now - :age_s LIMIT :most)
RETURNING document
