-- The first schema. Times are microseconds since the Unix epoch by this database's clock. Text that is
-- compared with the broker's sorts by bytes. A URL may be longer than an index entry can be, so URLs are
-- found by their SHA-256.

CREATE FUNCTION store_now() RETURNS INTEGER LANGUAGE sql VOLATILE
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- Immutable because the encoding of a database never changes.
CREATE FUNCTION url_key(url TEXT) RETURNS BLOB LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT sha256(convert_to(url, 'UTF8')) $$;

-- What all incarnations share. Each of the three rows' numbers is drawn under its own row lock.
CREATE TABLE settings (
    only_row        INTEGER PRIMARY KEY CHECK (only_row = 1),
    minimum_version INTEGER NOT NULL CHECK (minimum_version >= 0),
    fingerprint     TEXT
);
INSERT INTO settings VALUES (1, 0, NULL);

CREATE TABLE numbers (
    name  TEXT PRIMARY KEY CHECK (name IN ('epoch', 'generation')),
    value INTEGER NOT NULL CHECK (value >= 0)
);
INSERT INTO numbers VALUES ('epoch', 0), ('generation', 0);

CREATE TABLE incarnations (
    id          INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        TEXT NOT NULL,
    host        TEXT NOT NULL,
    pid         INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    fingerprint TEXT,
    take_over   INTEGER NOT NULL CHECK (take_over > 0),
    counter     INTEGER NOT NULL DEFAULT 0 CHECK (counter >= 0),
    alive       INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    beat_at     INTEGER NOT NULL,
    ended_at    INTEGER,
    CHECK (alive = (ended_at IS NULL))
);
CREATE INDEX ON incarnations (ended_at);

CREATE TABLE delivery_queues (
    name                  TEXT PRIMARY KEY,
    execution             TEXT,
    url                   TEXT,
    epoch                 INTEGER NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    owner                 INTEGER REFERENCES incarnations (id),
    paused_by             TEXT,
    paused_reason         TEXT,
    paused_at             INTEGER,
    wanted_by             TEXT,
    closing               TEXT NOT NULL DEFAULT 'open' CHECK (closing IN ('open', 'ended', 'closing')),
    refused               TEXT,
    refusing              TEXT,
    quarantined           TEXT,
    has_companion         INTEGER NOT NULL DEFAULT false,
    head_message          TEXT,
    head_failures         INTEGER,
    head_first_failed_at  INTEGER,
    head_last_failed_at   INTEGER,
    head_last_status      INTEGER,
    head_last_error       TEXT,
    head_next_attempt_at  INTEGER,
    head_parked           INTEGER,
    head_phase            TEXT CHECK (head_phase IN ('immediate', 'pre_backoff', 'backoff', 'post_backoff')),
    head_attempts_allowed INTEGER,
    decision_id           TEXT,
    decision_message      TEXT,
    decision_reason       TEXT,
    decision_epoch        INTEGER,
    refusals_in_row       INTEGER NOT NULL DEFAULT 0 CHECK (refusals_in_row >= 0),
    delivered             INTEGER NOT NULL DEFAULT 0 CHECK (delivered >= 0),
    last_delivered_at     INTEGER,
    active_at             INTEGER NOT NULL,
    created_at            INTEGER NOT NULL,
    CHECK (owner IS NULL OR epoch > 0),
    CHECK (num_nulls(paused_by, paused_at) IN (0, 2) AND (paused_reason IS NULL OR paused_by IS NOT NULL)),
    CHECK (num_nulls(head_message, head_failures, head_first_failed_at, head_last_failed_at, head_parked,
                     head_attempts_allowed) IN (0, 6)),
    CHECK (head_message IS NOT NULL
           OR num_nonnulls(head_last_status, head_last_error, head_next_attempt_at, head_phase) = 0),
    CHECK (NOT (head_parked AND head_next_attempt_at IS NOT NULL)),
    CHECK (num_nulls(decision_id, decision_message, decision_reason, decision_epoch) IN (0, 4))
);
CREATE INDEX ON delivery_queues (url_key(url));
CREATE INDEX ON delivery_queues (owner) WHERE owner IS NOT NULL;
CREATE INDEX ON delivery_queues (head_next_attempt_at) WHERE head_next_attempt_at IS NOT NULL;
CREATE INDEX ON delivery_queues (name) WHERE head_parked;
CREATE INDEX ON delivery_queues (name) WHERE closing = 'closing';
CREATE INDEX ON delivery_queues (name) WHERE decision_id IS NOT NULL;

CREATE TABLE endpoints (
    url_key         BLOB GENERATED ALWAYS AS (url_key(url)) STORED PRIMARY KEY,
    url             TEXT NOT NULL,
    state           TEXT NOT NULL DEFAULT 'available'
                    CHECK (state IN ('available', 'unavailable', 'parked', 'disabled')),
    epoch           INTEGER NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    since           INTEGER NOT NULL,
    attempts        INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    next_attempt_at INTEGER,
    last_status     INTEGER,
    last_error      TEXT,
    last_success_at INTEGER,
    probe_queue     TEXT,
    probe_message   TEXT,
    probe_token     INTEGER,
    probe_until     INTEGER,
    CHECK ((state = 'unavailable') = (next_attempt_at IS NOT NULL)),
    CHECK (num_nulls(probe_token, probe_until) IN (0, 2)),
    CHECK (state = 'unavailable' OR probe_token IS NULL),
    CHECK (state <> 'available' OR (attempts = 0 AND num_nonnulls(probe_queue, probe_message) = 0))
);
CREATE INDEX ON endpoints (state) WHERE state <> 'available';

CREATE TABLE attempts (
    id          INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id  TEXT NOT NULL,
    queue       TEXT NOT NULL,
    url         TEXT NOT NULL,
    number      INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    class       TEXT NOT NULL CHECK (class IN ('delivered', 'refused', 'gone', 'failed', 'interrupted')),
    status      INTEGER,
    error       TEXT,
    response    BLOB,
    counted     INTEGER NOT NULL
);
CREATE INDEX ON attempts (started_at, id);
CREATE INDEX ON attempts (queue, started_at, id);
CREATE INDEX ON attempts (url_key(url), started_at, id);
CREATE INDEX ON attempts (message_id, started_at, id);

CREATE TABLE audit (
    id      INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      INTEGER NOT NULL,
    actor   TEXT NOT NULL,
    command TEXT NOT NULL,
    target  TEXT NOT NULL,
    reason  TEXT,
    plan    TEXT,
    result  TEXT NOT NULL,
    detail  TEXT NOT NULL,
    hash    TEXT NOT NULL CHECK (length(hash) = 64)
);
CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the audit is append-only'; END $$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();

-- An absent event type or URL is the empty TEXT, so that the key holds for it too.
CREATE TABLE policies (
    event_type TEXT NOT NULL,
    url        TEXT NOT NULL,
    url_key    BLOB GENERATED ALWAYS AS (url_key(url)) STORED,
    version    INTEGER NOT NULL CHECK (version > 0),
    document   TEXT,
    author     TEXT NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (event_type, url_key, version)
);

CREATE TABLE runs (
    id         TEXT PRIMARY KEY,
    command    TEXT NOT NULL,
    state      TEXT NOT NULL
               CHECK (state IN ('planned', 'running', 'canary', 'paused', 'done', 'failed', 'cancelled')),
    done       INTEGER NOT NULL CHECK (done >= 0),
    failed     INTEGER NOT NULL CHECK (failed >= 0),
    skipped    INTEGER NOT NULL CHECK (skipped >= 0),
    total      INTEGER NOT NULL CHECK (total >= 0),
    rate       INTEGER CHECK (rate >= 0),
    actor      TEXT NOT NULL,
    reason     TEXT,
    plan       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE INDEX ON runs (created_at);

CREATE TABLE rescued (
    id           INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue        TEXT NOT NULL,
    header_frame BLOB NOT NULL,
    body         BLOB NOT NULL,
    reason       TEXT NOT NULL,
    at           INTEGER NOT NULL
);
CREATE INDEX ON rescued (queue, id);
