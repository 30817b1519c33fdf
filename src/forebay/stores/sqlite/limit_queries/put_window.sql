-- Arguments: limit, name, entries.
INSERT OR REPLACE INTO limit_windows (limit_id, name, entries) VALUES (?, ?, ?)
