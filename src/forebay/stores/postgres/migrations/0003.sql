-- API keys, few, by the id that their token names; and requests that are being taken in under an idempotency key.
CREATE TABLE forebay_keys (
    id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    sha256 text COLLATE "C" NOT NULL,
    scopes text NOT NULL,
    tenant text COLLATE "C",
    expires_at double precision,
    created_at double precision NOT NULL,
    revoked_at double precision
);

CREATE TABLE forebay_requests (
    tenant text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    token text COLLATE "C" NOT NULL,
    until double precision NOT NULL,
    PRIMARY KEY (tenant, key)
);
