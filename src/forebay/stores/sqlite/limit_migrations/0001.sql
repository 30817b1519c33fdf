-- One row per limit. `version` counts the writes of a row: whoever replaces a record names the one that it read.
-- `raw` is the clock of the rules at the last write, and `boot`, `ticks` and `wall` are what that instant was called
-- by the machine: the time since then is told from them, also after the machine was started anew.
CREATE TABLE limits (
    environment TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    record TEXT NOT NULL,
    raw INTEGER NOT NULL,
    boot TEXT NOT NULL,
    ticks INTEGER NOT NULL,
    wall INTEGER NOT NULL,
    PRIMARY KEY (environment, name)
) STRICT;
