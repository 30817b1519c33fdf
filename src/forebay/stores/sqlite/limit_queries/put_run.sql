-- Arguments: limit, session, id, state, tag, tick, callers, units, key, label, next, g.
INSERT OR REPLACE INTO limit_runs (limit_id, sid, id, state, tag, tick, callers, units, key, label, next, g)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
