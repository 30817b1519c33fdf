-- Arguments: limit. Reply: all of its sessions.
SELECT session_id, ends_at, due_at, request_number, grant_number, next_call_id, label, open_call_count,
    unconfirmed, place FROM limit_sessions WHERE limit_id = ? ORDER BY session_id
