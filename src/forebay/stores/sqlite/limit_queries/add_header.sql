-- Adds a limit that is not there.
-- Arguments: last, clock_offset, virtual, placed, head, eras, people, raw, boot, ticks, wall, environment, name.
-- Reply: its id, or no row where somebody was faster.
INSERT INTO limits
    (version, last, clock_offset, virtual, placed, head, eras, people, raw, boot, ticks, wall, environment, name)
VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id
