-- Reads the session that asks, the one that holds its calls that were cut off, and of all others the one that is due
-- next.
-- Arguments: limit, the session that asks, the session of calls that were cut off or ''. Reply: sessions, and after
-- each 1 if it is the one that is due next.
SELECT session_id, ends_at, due_at, request_number, grant_number, next_call_id, label, open_call_count,
    unconfirmed, place, 0
FROM limit_sessions WHERE limit_id = ?1 AND session_id IN (?2, ?3)
UNION ALL SELECT * FROM (
    SELECT session_id, ends_at, due_at, request_number, grant_number, next_call_id, label, open_call_count,
        unconfirmed, place, 1
    FROM limit_sessions WHERE limit_id = ?1 AND due_at >= 0 AND session_id <> ?2 ORDER BY due_at, session_id LIMIT 1
)
