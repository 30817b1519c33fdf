-- Writes all that a heartbeat changes.
-- Arguments: limit, last_step_at, session, ends_at, due_at, request_number, grant_number, next_call_id.
WITH header AS (
    UPDATE forebay_limits SET version = version + 1, last_step_at = $2::bigint WHERE id = $1::bigint
)
UPDATE forebay_limit_sessions
SET ends_at = $4::bigint, due_at = $5::bigint, request_number = $6::bigint, grant_number = $7::bigint,
    next_call_id = $8::bigint
WHERE limit_id = $1::bigint AND session_id = $3
