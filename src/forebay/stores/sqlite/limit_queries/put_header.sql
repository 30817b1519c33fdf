-- Writes what an exchange changes in a header.
-- Arguments: last, clock_offset, virtual, placed, head, raw, boot, ticks, wall, limit.
UPDATE limits SET version = version + 1, last = ?, clock_offset = ?, virtual = ?, placed = ?, head = ?,
    raw = ?, boot = ?, ticks = ?, wall = ?
WHERE id = ?
