-- Writes all of a header; what an older program left is in rows from now on.
-- Arguments: last, clock_offset, virtual, placed, head, eras, people, raw, boot, ticks, wall, limit.
UPDATE limits SET version = version + 1, last = ?, clock_offset = ?, virtual = ?, placed = ?, head = ?, eras = ?,
    people = ?, older = '', raw = ?, boot = ?, ticks = ?, wall = ?
WHERE id = ?
