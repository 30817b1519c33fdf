-- Writes all of a header; what an older program left is in rows from now on.
-- Arguments: last_step_at, clock_offset_ms, virtual_time, placed_run_count, head, eras, people, raw, boot, ticks,
-- wall, limit, the version that was read.
UPDATE limits SET version = version + 1, last_step_at = ?, clock_offset_ms = ?, virtual_time = ?,
    placed_run_count = ?, head = ?, eras = ?,
    people = ?, older = '', raw = ?, boot = ?, ticks = ?, wall = ?
WHERE id = ? AND version = ?
