-- Where the callbacks of a job go, and the places that callbacks go to.
ALTER TABLE forebay_jobs ADD COLUMN callback_json text;

CREATE TABLE forebay_endpoints (
    id text COLLATE "C" PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    url text NOT NULL,
    created_at double precision NOT NULL,
    generation bigint NOT NULL,
    rotated_at double precision,
    disabled_at double precision,
    note text NOT NULL,
    version bigint NOT NULL
);
