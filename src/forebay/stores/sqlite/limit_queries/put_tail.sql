-- Arguments: limit, key, tag, runs.
INSERT OR REPLACE INTO limit_tails (limit_id, key, tag, runs) VALUES (?, ?, ?, ?)
