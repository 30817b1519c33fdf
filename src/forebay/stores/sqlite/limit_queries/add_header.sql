-- Adds a limit that is not there.
-- Arguments: last_step_at, clock_offset_ms, virtual_time, placed_run_count, head, eras, people, raw, boot, ticks,
-- wall, environment, name. Reply: its id, or no row where somebody was faster.
INSERT INTO limits
    (version, last_step_at, clock_offset_ms, virtual_time, placed_run_count, head, eras, people, raw, boot, ticks,
        wall, environment, name)
VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id
