-- API keys, few, by the id that their token names; and requests that are being taken in under an idempotency key.
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    scopes TEXT NOT NULL,
    tenant TEXT,
    expires_at REAL,
    created_at REAL NOT NULL,
    revoked_at REAL
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    token TEXT NOT NULL,
    until REAL NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;
