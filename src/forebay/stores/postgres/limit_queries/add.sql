-- Adds the header of a limit that is not there, and clears away what those that were deleted have left.
-- Arguments: environment, name, last_step_at, clock_offset_ms, virtual_time, placed_run_count, head, eras, people.
-- Reply: one row with its id if it was added.
WITH sessions AS (
    DELETE FROM forebay_limit_sessions AS s WHERE NOT EXISTS (SELECT FROM forebay_limits AS l WHERE l.id = s.limit_id)
), calls AS (
    DELETE FROM forebay_limit_calls AS c WHERE NOT EXISTS (SELECT FROM forebay_limits AS l WHERE l.id = c.limit_id)
), runs AS (
    DELETE FROM forebay_limit_runs AS r WHERE NOT EXISTS (SELECT FROM forebay_limits AS l WHERE l.id = r.limit_id)
), tails AS (
    DELETE FROM forebay_limit_tails AS t WHERE NOT EXISTS (SELECT FROM forebay_limits AS l WHERE l.id = t.limit_id)
), windows AS (
    DELETE FROM forebay_limit_windows AS w WHERE NOT EXISTS (SELECT FROM forebay_limits AS l WHERE l.id = w.limit_id)
)
INSERT INTO forebay_limits (environment, name, version, last_step_at, clock_offset_ms, virtual_time, placed_run_count,
    head, eras, people)
VALUES ($1, $2, 1, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7, $8, $9) ON CONFLICT DO NOTHING RETURNING id
