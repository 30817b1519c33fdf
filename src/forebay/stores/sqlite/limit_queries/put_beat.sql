-- Writes what a heartbeat changes in a header.
-- Arguments: last_step_at, raw, boot, ticks, wall, limit, the version that was read.
UPDATE limits SET version = version + 1, last_step_at = ?, raw = ?, boot = ?, ticks = ?, wall = ? WHERE id = ? AND version = ?
