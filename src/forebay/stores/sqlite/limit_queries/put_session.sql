-- Arguments: limit, session, until, due, n, g, next, label, open, out.
INSERT OR REPLACE INTO limit_sessions (limit_id, sid, until, due, n, g, next, label, open, out)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
