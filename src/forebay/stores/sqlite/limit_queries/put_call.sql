-- Arguments: limit, session, id, at, until, units, key, label.
INSERT OR REPLACE INTO limit_calls (limit_id, sid, id, at, until, units, key, label) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
