-- Writes what a grant changes in a session of which nothing else was read.
-- Arguments: next, g, out, calls more, limit, session.
UPDATE limit_sessions SET next = ?, g = ?, out = ?, open = open + ? WHERE limit_id = ? AND sid = ?
