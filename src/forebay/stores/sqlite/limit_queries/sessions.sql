-- Arguments: limit. Reply: all of its sessions.
SELECT sid, until, due, n, g, next, label, open, out FROM limit_sessions WHERE limit_id = ? ORDER BY sid
