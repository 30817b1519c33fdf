-- Pauses of lanes, few at any time, and delayed tasks by lane: counted without a look at the rows.
CREATE TABLE pauses (lane TEXT PRIMARY KEY, at REAL NOT NULL, until REAL, note TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE INDEX tasks_later_lane ON tasks (lane, available_at, tag)
    WHERE status = 'pending' AND tag IS NULL;

-- For every prune, which forgets those that are old enough.
CREATE INDEX buried_at ON buried (at);
