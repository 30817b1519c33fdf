-- Reads the session that is due next.
-- Arguments: limit, now, the session that asks. Reply: a session, or none.
SELECT sid, until, due, n, g, next, label, open, out FROM limit_sessions
WHERE limit_id = ? AND due > ? AND sid <> ? ORDER BY due LIMIT 1
