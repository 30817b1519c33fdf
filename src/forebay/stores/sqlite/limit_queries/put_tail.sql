-- Arguments: limit, key, virtual_finish, run_count.
INSERT OR REPLACE INTO limit_tails (limit_id, key, virtual_finish, run_count) VALUES (?, ?, ?, ?)
