-- Reads sessions that a step has to look at, those that are due the longest first.
-- Arguments: limit, now, the session that asks, at most so many. Reply: sessions.
SELECT sid, until, due, n, g, next, label, open, out FROM limit_sessions
WHERE limit_id = ? AND due <= ? AND sid <> ? ORDER BY due, sid LIMIT ?
