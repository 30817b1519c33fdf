-- Writes what an exchange changes in a header.
-- Arguments: last_step_at, clock_offset_ms, virtual_time, placed_run_count, head, raw, boot, ticks, wall, limit, the version that was read.
UPDATE limits SET version = version + 1, last_step_at = ?, clock_offset_ms = ?, virtual_time = ?,
    placed_run_count = ?, head = ?,
    raw = ?, boot = ?, ticks = ?, wall = ?
WHERE id = ? AND version = ?
