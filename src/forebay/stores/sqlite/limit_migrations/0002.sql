-- A limit is a header and the rows that it counts; an exchange reads and writes only those that it has to do with.
-- `version`, `raw`, `boot`, `ticks` and `wall` are as before. `last`, `clock_offset`, `virtual` and `placed` (how many
-- runs have a place in line) are parts of the record that statements need; `head` has its other plain parts, and the
-- counts of all rows. `eras` and `people` change only when a person or a program changes the limit. `older` is the
-- record as schema 1 kept it, until the first step that changes it. All texts are JSON.
ALTER TABLE limits RENAME TO limits_1;
CREATE TABLE limits (
    id INTEGER PRIMARY KEY,
    environment TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    last INTEGER NOT NULL DEFAULT 0,
    clock_offset INTEGER NOT NULL DEFAULT 0,
    virtual INTEGER NOT NULL DEFAULT 0,
    placed INTEGER NOT NULL DEFAULT 0,
    head TEXT NOT NULL DEFAULT '',
    eras TEXT NOT NULL DEFAULT '',
    people TEXT NOT NULL DEFAULT '',
    older TEXT NOT NULL DEFAULT '',
    raw INTEGER NOT NULL,
    boot TEXT NOT NULL,
    ticks INTEGER NOT NULL,
    wall INTEGER NOT NULL,
    UNIQUE (environment, name)
) STRICT;
INSERT INTO limits (environment, name, version, older, raw, boot, ticks, wall)
    SELECT environment, name, version, record, raw, boot, ticks, wall FROM limits_1;
DROP TABLE limits_1;

-- Sessions. `due`: when a step has to look at it; `open`: how many calls it has; `out`: grants that it has not confirmed.
CREATE TABLE limit_sessions (
    limit_id INTEGER NOT NULL,
    sid TEXT NOT NULL,
    until INTEGER NOT NULL,
    due INTEGER NOT NULL,
    n INTEGER NOT NULL,
    g INTEGER NOT NULL,
    next INTEGER NOT NULL,
    label TEXT NOT NULL,
    open INTEGER NOT NULL,
    out TEXT NOT NULL,
    PRIMARY KEY (limit_id, sid)
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_sessions_due ON limit_sessions (limit_id, due);

-- Calls that were granted and have not been given back.
CREATE TABLE limit_calls (
    limit_id INTEGER NOT NULL,
    sid TEXT NOT NULL,
    id INTEGER NOT NULL,
    at INTEGER NOT NULL,
    until INTEGER NOT NULL,
    units TEXT NOT NULL,
    key TEXT NOT NULL,
    label TEXT NOT NULL,
    PRIMARY KEY (limit_id, sid, id)
) STRICT, WITHOUT ROWID;

-- Runs in line. `state`: 0 may be granted, 1 its session has to confirm something first, 2 too large. `next` and `g` are
-- its session's, so that a grant needs no other row.
CREATE TABLE limit_runs (
    limit_id INTEGER NOT NULL,
    sid TEXT NOT NULL,
    id INTEGER NOT NULL,
    state INTEGER NOT NULL,
    tag INTEGER NOT NULL,
    tick INTEGER NOT NULL,
    callers INTEGER NOT NULL,
    units TEXT NOT NULL,
    key TEXT NOT NULL,
    label TEXT NOT NULL,
    next INTEGER NOT NULL,
    g INTEGER NOT NULL,
    PRIMARY KEY (limit_id, sid, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_runs_line ON limit_runs (limit_id, state, tag, tick);

-- The place behind the last run of each key of callers, and how many runs it has.
CREATE TABLE limit_tails (
    limit_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    tag INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    PRIMARY KEY (limit_id, key)
) STRICT, WITHOUT ROWID;

-- Logs of windows: instants and units in turn, 8 bytes each, the lowest first.
CREATE TABLE limit_windows (
    limit_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    entries BLOB NOT NULL,
    PRIMARY KEY (limit_id, name)
) STRICT;

CREATE TRIGGER limits_deleted AFTER DELETE ON limits BEGIN
    DELETE FROM limit_sessions WHERE limit_id = old.id;
    DELETE FROM limit_calls WHERE limit_id = old.id;
    DELETE FROM limit_runs WHERE limit_id = old.id;
    DELETE FROM limit_tails WHERE limit_id = old.id;
    DELETE FROM limit_windows WHERE limit_id = old.id;
END;
