-- A small limit is a header. A large one is a header and the rows that it counts; an exchange reads and writes only
-- those that it has to do with.
-- `version`, `raw`, `boot`, `ticks` and `wall` are as before. `last_step_at`, `clock_offset_ms`, `virtual_time` and
-- `placed_run_count` (how many runs have a place in line) are parts of the record that statements need; `head` has its
-- other plain parts, and either the sessions, tails and windows themselves, or the counts of all rows. `eras` and `people` change only when a person or a program changes
-- the limit. `older` is the record as schema 1 kept it, until the first step that changes it. All texts are JSON.
ALTER TABLE limits RENAME TO limits_1;
CREATE TABLE limits (
    id INTEGER PRIMARY KEY,
    environment TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    last_step_at INTEGER NOT NULL DEFAULT 0,
    clock_offset_ms INTEGER NOT NULL DEFAULT 0,
    virtual_time INTEGER NOT NULL DEFAULT 0,
    placed_run_count INTEGER NOT NULL DEFAULT 0,
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

-- Sessions. `due_at`: when a step has to look at it; `open_call_count`: how many calls it has; `unconfirmed`: grants
-- that it has not confirmed.
CREATE TABLE limit_sessions (
    limit_id INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    ends_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    request_number INTEGER NOT NULL,
    grant_number INTEGER NOT NULL,
    next_call_id INTEGER NOT NULL,
    label TEXT NOT NULL,
    open_call_count INTEGER NOT NULL,
    unconfirmed TEXT NOT NULL,
    place TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (limit_id, session_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_sessions_due ON limit_sessions (limit_id, due_at);

-- Calls that were granted and have not been given back.
CREATE TABLE limit_calls (
    limit_id INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    id INTEGER NOT NULL,
    granted_at INTEGER NOT NULL,
    counted_at INTEGER NOT NULL,
    call_until INTEGER NOT NULL,
    units TEXT NOT NULL,
    key TEXT NOT NULL,
    label TEXT NOT NULL,
    PRIMARY KEY (limit_id, session_id, id)
) STRICT, WITHOUT ROWID;

-- Runs in line. `state`: 0 may be granted, 1 its session has to confirm something first, 2 too large. `next_call_id`
-- and `grant_number` are its session's, so that a grant needs no other row.
CREATE TABLE limit_runs (
    limit_id INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    id INTEGER NOT NULL,
    state INTEGER NOT NULL,
    virtual_start INTEGER NOT NULL,
    arrival_number INTEGER NOT NULL,
    caller_count INTEGER NOT NULL,
    units TEXT NOT NULL,
    key TEXT NOT NULL,
    label TEXT NOT NULL,
    next_call_id INTEGER NOT NULL,
    grant_number INTEGER NOT NULL,
    PRIMARY KEY (limit_id, session_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_runs_line ON limit_runs (limit_id, state, virtual_start, arrival_number);

-- The place behind the last run of each key of callers, and how many runs it has.
CREATE TABLE limit_tails (
    limit_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    virtual_finish INTEGER NOT NULL,
    run_count INTEGER NOT NULL,
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
