-- Writes what a step changes in a header that has the whole limit.
-- Arguments: limit, last_step_at, clock_offset_ms, virtual_time, placed_run_count, head.
UPDATE forebay_limits SET version = version + 1, last_step_at = $2::bigint, clock_offset_ms = $3::bigint,
    virtual_time = $4::bigint, placed_run_count = $5::bigint, head = $6
WHERE id = $1::bigint
