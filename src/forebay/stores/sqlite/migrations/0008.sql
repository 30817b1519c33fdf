-- Facts about the ledger as a whole, such as the environment that it belongs to; and where a worker runs, in which version.
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

ALTER TABLE sessions ADD COLUMN host TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN version TEXT NOT NULL DEFAULT '';
