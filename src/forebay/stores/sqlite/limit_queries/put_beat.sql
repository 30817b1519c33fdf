-- Writes what a heartbeat changes in a header.
-- Arguments: last, raw, boot, ticks, wall, limit.
UPDATE limits SET version = version + 1, last = ?, raw = ?, boot = ?, ticks = ?, wall = ? WHERE id = ?
