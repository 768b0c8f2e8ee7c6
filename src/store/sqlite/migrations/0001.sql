-- The first schema. Times are microseconds since the Unix epoch by the host's clock; truth values are 0 and 1.
-- The file is shared with the embedded broker, whose tables have names of their own.

-- What all incarnations share.
CREATE TABLE settings (
    only_row        INTEGER PRIMARY KEY CHECK (only_row = 1),
    minimum_version INTEGER NOT NULL CHECK (minimum_version >= 0),
    fingerprint     TEXT
) STRICT;
INSERT INTO settings VALUES (1, 0, NULL);

CREATE TABLE numbers (
    name  TEXT NOT NULL PRIMARY KEY CHECK (name IN ('epoch', 'generation')),
    value INTEGER NOT NULL CHECK (value >= 0)
) STRICT;
INSERT INTO numbers VALUES ('epoch', 0), ('generation', 0);

CREATE TABLE incarnations (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT NOT NULL,
    host        TEXT NOT NULL,
    pid         INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    fingerprint TEXT,
    take_over   INTEGER NOT NULL CHECK (take_over > 0),
    counter     INTEGER NOT NULL DEFAULT 0 CHECK (counter >= 0),
    alive       INTEGER NOT NULL CHECK (alive IN (0, 1)),
    started_at  INTEGER NOT NULL,
    beat_at     INTEGER NOT NULL,
    ended_at    INTEGER,
    CHECK (alive = (ended_at IS NULL))
) STRICT;
CREATE INDEX incarnations_by_ended_at ON incarnations (ended_at);

CREATE TABLE delivery_queues (
    name                  TEXT NOT NULL PRIMARY KEY,
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
    has_companion         INTEGER NOT NULL DEFAULT 0 CHECK (has_companion IN (0, 1)),
    head_message          TEXT,
    head_failures         INTEGER,
    head_first_failed_at  INTEGER,
    head_last_failed_at   INTEGER,
    head_last_status      INTEGER,
    head_last_error       TEXT,
    head_next_attempt_at  INTEGER,
    head_parked           INTEGER CHECK (head_parked IN (0, 1)),
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
    CHECK ((paused_by IS NULL) = (paused_at IS NULL) AND (paused_reason IS NULL OR paused_by IS NOT NULL)),
    CHECK ((head_message IS NULL) = (head_failures IS NULL)
           AND (head_message IS NULL) = (head_first_failed_at IS NULL)
           AND (head_message IS NULL) = (head_last_failed_at IS NULL)
           AND (head_message IS NULL) = (head_parked IS NULL)
           AND (head_message IS NULL) = (head_attempts_allowed IS NULL)),
    CHECK (head_message IS NOT NULL OR COALESCE(head_last_status, head_last_error, head_next_attempt_at, head_phase) IS NULL),
    CHECK (NOT (head_parked AND head_next_attempt_at IS NOT NULL)),
    CHECK ((decision_id IS NULL) = (decision_message IS NULL)
           AND (decision_id IS NULL) = (decision_reason IS NULL)
           AND (decision_id IS NULL) = (decision_epoch IS NULL))
) STRICT;
CREATE INDEX delivery_queues_by_url ON delivery_queues (url);
CREATE INDEX delivery_queues_by_owner ON delivery_queues (owner) WHERE owner IS NOT NULL;
CREATE INDEX delivery_queues_by_head_next_attempt_at ON delivery_queues (head_next_attempt_at) WHERE head_next_attempt_at IS NOT NULL;
CREATE INDEX delivery_queues_parked ON delivery_queues (name) WHERE head_parked;
CREATE INDEX delivery_queues_closing ON delivery_queues (name) WHERE closing <> 'open';
CREATE INDEX delivery_queues_decided ON delivery_queues (name) WHERE decision_id IS NOT NULL;

CREATE TABLE endpoints (
    url             TEXT NOT NULL PRIMARY KEY,
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
    CHECK ((probe_token IS NULL) = (probe_until IS NULL)),
    CHECK (state = 'unavailable' OR probe_token IS NULL),
    CHECK (state <> 'available' OR (attempts = 0 AND COALESCE(probe_queue, probe_message) IS NULL))
) STRICT;
CREATE INDEX endpoints_by_state ON endpoints (state) WHERE state <> 'available';

CREATE TABLE attempts (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
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
    counted     INTEGER NOT NULL CHECK (counted IN (0, 1))
) STRICT;
CREATE INDEX attempts_by_started_at_id ON attempts (started_at, id);
CREATE INDEX attempts_by_queue_started_at_id ON attempts (queue, started_at, id);
CREATE INDEX attempts_by_url_started_at_id ON attempts (url, started_at, id);
CREATE INDEX attempts_by_message_id_started_at_id ON attempts (message_id, started_at, id);

CREATE TABLE audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    actor   TEXT NOT NULL,
    command TEXT NOT NULL,
    target  TEXT NOT NULL,
    reason  TEXT,
    plan    TEXT,
    result  TEXT NOT NULL,
    detail  TEXT NOT NULL,
    hash    TEXT NOT NULL CHECK (length(hash) = 64)
) STRICT;
CREATE TRIGGER audit_refuses_update BEFORE UPDATE ON audit
    BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TRIGGER audit_refuses_delete BEFORE DELETE ON audit
    BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

-- An absent event type or URL is the empty TEXT, so that the key holds for it too.
CREATE TABLE policies (
    event_type TEXT NOT NULL,
    url        TEXT NOT NULL,
    version    INTEGER NOT NULL CHECK (version > 0),
    document   TEXT,
    author     TEXT NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (event_type, url, version)
) STRICT;

CREATE TABLE runs (
    id         TEXT NOT NULL PRIMARY KEY,
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
) STRICT;
CREATE INDEX runs_by_created_at ON runs (created_at);

CREATE TABLE rescued (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    queue        TEXT NOT NULL,
    header_frame BLOB NOT NULL,
    body         BLOB NOT NULL,
    reason       TEXT NOT NULL,
    at           INTEGER NOT NULL
) STRICT;
CREATE INDEX rescued_by_queue_id ON rescued (queue, id);
