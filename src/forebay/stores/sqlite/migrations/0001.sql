-- The ledger: units (lone tasks, jobs), their history, and what is kept beside them.
-- A pending task is "ready" when it has a tag, and "later" when it has none.
CREATE TABLE tasks (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    lane TEXT NOT NULL,
    tenant TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'canceled')),
    role TEXT NOT NULL,
    job_id TEXT,
    chunk_index INTEGER,
    generation INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    flow TEXT,
    tag INTEGER,
    tags TEXT,
    idempotency_key TEXT,
    payload_hash TEXT,
    payload_blob TEXT,
    timeout_s REAL NOT NULL,
    deadline_at REAL,
    max_retries INTEGER NOT NULL,
    max_reschedules INTEGER,
    created_at REAL NOT NULL,
    available_at REAL NOT NULL,
    wait_reason TEXT,
    retry_count INTEGER NOT NULL DEFAULT 0,
    reschedule_count INTEGER NOT NULL DEFAULT 0,
    lost_count INTEGER NOT NULL DEFAULT 0,
    claim_count INTEGER NOT NULL DEFAULT 0,
    attempt_count INTEGER NOT NULL DEFAULT 0,
    session_id TEXT,
    exchange_n INTEGER,
    claimed_at REAL,
    attempt_deadline_at REAL,
    finished_at REAL,
    cancel_requested_at REAL,
    error_class TEXT,
    error_text TEXT,
    result_blob TEXT
) STRICT;

CREATE INDEX tasks_ready ON tasks (kind, lane, priority DESC, tag, available_at)
    WHERE status = 'pending' AND tag IS NOT NULL;
CREATE INDEX tasks_flow ON tasks (kind, lane, priority, flow, tag)
    WHERE status = 'pending' AND tag IS NOT NULL AND flow IS NOT NULL;
CREATE INDEX tasks_later ON tasks (kind, available_at)
    WHERE status = 'pending' AND tag IS NULL;
CREATE INDEX tasks_running ON tasks (session_id, attempt_deadline_at)
    WHERE status = 'running';
CREATE INDEX tasks_failed ON tasks (seq) WHERE status = 'failed';
CREATE INDEX tasks_job ON tasks (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX tasks_payload_blob ON tasks (payload_blob) WHERE payload_blob IS NOT NULL;
CREATE INDEX tasks_result_blob ON tasks (result_blob) WHERE result_blob IS NOT NULL;

-- Apart from the rows that every step rewrites, because they may be large.
CREATE TABLE payloads (task_seq INTEGER PRIMARY KEY, payload TEXT NOT NULL) STRICT;
CREATE TABLE results (task_seq INTEGER PRIMARY KEY, result TEXT NOT NULL) STRICT;

CREATE TABLE history (
    task_seq INTEGER NOT NULL,
    token INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    worker TEXT NOT NULL,
    claimed_at REAL NOT NULL,
    ended_at REAL NOT NULL,
    outcome TEXT NOT NULL,
    status TEXT NOT NULL,
    retry_count INTEGER NOT NULL,
    reschedule_count INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    available_at REAL,
    error_class TEXT,
    error_text TEXT,
    traceback TEXT,
    PRIMARY KEY (task_seq, token)
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    pipeline TEXT NOT NULL,
    tenant TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'canceled')),
    generation INTEGER NOT NULL,
    created_at REAL NOT NULL,
    document TEXT,
    label TEXT,
    idempotency_key TEXT,
    payload_hash TEXT,
    tags TEXT,
    allow_holes INTEGER NOT NULL,
    merge_json TEXT,
    chunk_count INTEGER NOT NULL,
    open_count INTEGER NOT NULL CHECK (open_count >= 0),
    running_count INTEGER NOT NULL CHECK (running_count >= 0),
    completed_count INTEGER NOT NULL CHECK (completed_count >= 0),
    failed_count INTEGER NOT NULL CHECK (failed_count >= 0),
    canceled_count INTEGER NOT NULL CHECK (canceled_count >= 0),
    event_count INTEGER NOT NULL,
    started_at REAL,
    finished_at REAL,
    cancel_requested_at REAL,
    merge_id TEXT,
    error_class TEXT,
    error_text TEXT
) STRICT;

CREATE INDEX jobs_document ON jobs (document) WHERE document IS NOT NULL;

CREATE TABLE events (
    job_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    at REAL NOT NULL,
    name TEXT NOT NULL,
    fields TEXT NOT NULL,
    PRIMARY KEY (job_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    worker TEXT NOT NULL,
    lease_s REAL NOT NULL,
    kinds TEXT NOT NULL,
    opened_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    ended_at REAL,
    exchange_n INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE usage (
    task_id TEXT NOT NULL,
    token INTEGER NOT NULL,
    meter TEXT NOT NULL,
    unit TEXT NOT NULL,
    tenant TEXT NOT NULL,
    amount REAL NOT NULL,
    at REAL NOT NULL
) STRICT;

-- The last tokens of deleted tasks: one that is submitted again under its key goes on from there.
CREATE TABLE buried (id TEXT PRIMARY KEY, claim_count INTEGER NOT NULL, at REAL NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    at REAL NOT NULL,
    who TEXT NOT NULL,
    tenant TEXT NOT NULL,
    verb TEXT NOT NULL,
    targets TEXT NOT NULL,
    target_count INTEGER NOT NULL,
    note TEXT NOT NULL,
    answer TEXT NOT NULL
) STRICT;

CREATE TABLE remembered (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    document TEXT NOT NULL,
    result_json TEXT,
    result_blob TEXT,
    created_at REAL NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX remembered_document ON remembered (tenant, document);
CREATE INDEX remembered_blob ON remembered (result_blob) WHERE result_blob IS NOT NULL;
