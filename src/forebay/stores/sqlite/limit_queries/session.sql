-- Arguments: limit, session. Reply: the session.
SELECT sid, until, due, n, g, next, label, open, out FROM limit_sessions WHERE limit_id = ? AND sid = ?
