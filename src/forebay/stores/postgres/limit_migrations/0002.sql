-- A small limit is a header. A large one is a header and the rows that it counts; an exchange reads and writes only
-- those that it has to do with.
-- `version` counts the writes. `last_step_at`, `clock_offset_ms`, `virtual_time` and `placed_run_count` (how many runs
-- have a place in line) are parts of the record that statements need; `head` has its other plain parts, and either the
-- sessions, tails and windows themselves, or the counts of all rows. `eras` and `people` change only when a person or a program changes the limit. `older` is the record as
-- schema 1 kept it, until the first step that changes it. All texts are JSON. Pages are left half empty, so that the
-- next version of a row lies in the same page and the last one is cleared away without a vacuum.
-- Whoever has dropped the headers has left nothing of use.
DROP TABLE IF EXISTS forebay_limit_sessions, forebay_limit_calls, forebay_limit_runs, forebay_limit_tails,
    forebay_limit_windows;
ALTER TABLE forebay_limits RENAME COLUMN record TO older;
ALTER TABLE forebay_limits
    ALTER COLUMN older SET DEFAULT '',
    ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY,
    ADD COLUMN version bigint NOT NULL DEFAULT 0,
    ADD COLUMN last_step_at bigint NOT NULL DEFAULT 0,
    ADD COLUMN clock_offset_ms bigint NOT NULL DEFAULT 0,
    ADD COLUMN virtual_time bigint NOT NULL DEFAULT 0,
    ADD COLUMN placed_run_count bigint NOT NULL DEFAULT 0,
    ADD COLUMN head text NOT NULL DEFAULT '',
    ADD COLUMN eras text NOT NULL DEFAULT '',
    ADD COLUMN people text NOT NULL DEFAULT '';
ALTER TABLE forebay_limits ALTER COLUMN head SET STORAGE MAIN;
CREATE UNIQUE INDEX forebay_limits_id ON forebay_limits (id);

-- Sessions. `due_at`: when a step has to look at it; `open_call_count`: how many calls it has; `unconfirmed`: grants
-- that it has not confirmed.
CREATE TABLE forebay_limit_sessions (
    limit_id bigint NOT NULL,
    session_id text NOT NULL,
    ends_at bigint NOT NULL,
    due_at bigint NOT NULL,
    request_number bigint NOT NULL,
    grant_number bigint NOT NULL,
    next_call_id bigint NOT NULL,
    label text NOT NULL,
    open_call_count bigint NOT NULL,
    unconfirmed text NOT NULL,
    place text NOT NULL DEFAULT '',
    PRIMARY KEY (limit_id, session_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
-- Partial, though every row is in it: while a table is empty all its indexes look as cheap, and whoever seeks a session
-- must not take this one and read all of a limit.
CREATE INDEX forebay_limit_sessions_due ON forebay_limit_sessions (limit_id, due_at, session_id) WHERE due_at >= 0;

-- Calls that were granted and have not been given back.
CREATE TABLE forebay_limit_calls (
    limit_id bigint NOT NULL,
    session_id text NOT NULL,
    id bigint NOT NULL,
    granted_at bigint NOT NULL,
    counted_at bigint NOT NULL,
    call_until bigint NOT NULL,
    units text NOT NULL,
    key text NOT NULL,
    label text NOT NULL,
    PRIMARY KEY (limit_id, session_id, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Runs in line. `state`: 0 may be granted, 1 its session has to confirm something first, 2 too large. `next_call_id`
-- and `grant_number` are its session's, so that a grant needs no other row.
CREATE TABLE forebay_limit_runs (
    limit_id bigint NOT NULL,
    session_id text NOT NULL,
    id bigint NOT NULL,
    state bigint NOT NULL,
    virtual_start bigint NOT NULL,
    arrival_number bigint NOT NULL,
    caller_count bigint NOT NULL,
    units text NOT NULL,
    key text NOT NULL,
    label text NOT NULL,
    next_call_id bigint NOT NULL,
    grant_number bigint NOT NULL,
    PRIMARY KEY (limit_id, session_id, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX forebay_limit_runs_line ON forebay_limit_runs (limit_id, state, virtual_start, arrival_number)
    WHERE state < 2;

-- The place behind the last run of each key of callers, and how many runs it has.
CREATE TABLE forebay_limit_tails (
    limit_id bigint NOT NULL,
    key text NOT NULL,
    virtual_finish bigint NOT NULL,
    run_count bigint NOT NULL,
    PRIMARY KEY (limit_id, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Logs of windows: instants and units in turn, 8 bytes each, the lowest first.
CREATE TABLE forebay_limit_windows (
    limit_id bigint NOT NULL,
    name text NOT NULL,
    entries bytea NOT NULL,
    PRIMARY KEY (limit_id, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
ALTER TABLE forebay_limit_windows ALTER COLUMN entries SET STORAGE EXTERNAL;
