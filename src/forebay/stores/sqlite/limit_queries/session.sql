-- Arguments: limit, session. Reply: the session.
SELECT session_id, ends_at, due_at, request_number, grant_number, next_call_id, label, open_call_count,
    unconfirmed, place FROM limit_sessions WHERE limit_id = ? AND session_id = ?
