-- Arguments: limit, session, ends_at, due_at, request_number, grant_number, next_call_id, label,
-- open_call_count, unconfirmed, place.
INSERT OR REPLACE INTO limit_sessions (limit_id, session_id, ends_at, due_at, request_number, grant_number,
    next_call_id, label, open_call_count, unconfirmed, place)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
