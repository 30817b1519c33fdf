-- Arguments: limit, session, id, granted_at, counted_at, call_until, units, key, label.
INSERT OR REPLACE INTO limit_calls (limit_id, session_id, id, granted_at, counted_at, call_until, units, key, label)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
