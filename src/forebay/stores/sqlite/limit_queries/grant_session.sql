-- Writes what a grant changes in a session of which nothing else was read.
-- Arguments: next_call_id, grant_number, unconfirmed, calls more, limit, session.
UPDATE limit_sessions SET next_call_id = ?, grant_number = ?, unconfirmed = ?,
    open_call_count = open_call_count + ? WHERE limit_id = ? AND session_id = ?
