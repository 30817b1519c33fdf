-- Where the callbacks of a job go, and the places that callbacks go to.
ALTER TABLE jobs ADD COLUMN callback_json TEXT;

CREATE TABLE endpoints (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    url TEXT NOT NULL,
    created_at REAL NOT NULL,
    generation INTEGER NOT NULL,
    rotated_at REAL,
    disabled_at REAL,
    note TEXT NOT NULL,
    version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
