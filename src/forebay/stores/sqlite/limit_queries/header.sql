-- Reads the header of a limit.
-- Arguments: environment, name. Reply: its row, with the moment of its last write.
SELECT id, version, last_step_at, clock_offset_ms, virtual_time, placed_run_count, head, eras, people, older, raw,
    boot, ticks, wall
FROM limits WHERE environment = ? AND name = ?
