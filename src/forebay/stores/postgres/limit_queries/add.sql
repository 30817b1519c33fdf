-- Adds a record where there is none.
-- Arguments: environment, name, record. Reply: one row if it was added.
INSERT INTO forebay_limits (environment, name, record) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING 1
