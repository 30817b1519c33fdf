-- Reads the header of a limit.
-- Arguments: environment, name. Reply: its row, with the moment of its last write.
SELECT id, version, last, clock_offset, virtual, placed, head, eras, people, older, raw, boot, ticks, wall
FROM limits WHERE environment = ? AND name = ?
