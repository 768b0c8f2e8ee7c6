-- The event table. Times and spans are microseconds. One row per (type, reference) that is due now and per
-- (type, reference, date) that is dated; what claims moved to a dead-letter type stands outside that key.

CREATE TABLE event_token (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), value INTEGER NOT NULL) STRICT;
INSERT INTO event_token VALUES (1, 0);

CREATE TABLE event_types (
    name             TEXT PRIMARY KEY CHECK (name <> ''),
    document         TEXT NOT NULL DEFAULT '{}',
    max_claim_count  INTEGER CHECK (max_claim_count >= 1),
    dead_letter_type TEXT REFERENCES event_types (name) CHECK (dead_letter_type <> name),
    dead_letter_ttl  INTEGER CHECK (dead_letter_ttl > 0),
    coalesce_window  INTEGER CHECK (coalesce_window > 0),
    coalesce_max     INTEGER CHECK (coalesce_max >= coalesce_window),
    cutoff           INTEGER CHECK (cutoff >= 1),
    backoff_base     INTEGER CHECK (backoff_base > 0),
    backoff_cap      INTEGER CHECK (backoff_cap > 0),
    history_ttl      INTEGER CHECK (history_ttl > 0),
    is_target        INTEGER NOT NULL DEFAULT 0 CHECK (is_target IN (0, 1)),
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    CHECK ((coalesce_window IS NULL) = (coalesce_max IS NULL)),
    -- A dead-letter type has none itself: no chains.
    CHECK (NOT (is_target AND dead_letter_type IS NOT NULL))
) STRICT;

-- States: 0 ready, 1 leased, 2 dead, 3 held.
CREATE TABLE events (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    type            TEXT NOT NULL CHECK (type <> ''),
    subtype         TEXT NOT NULL CHECK (subtype IN ('', 'delayed')),
    reference       TEXT NOT NULL CHECK (reference <> ''),
    dated           INTEGER NOT NULL DEFAULT 0,
    keyed           INTEGER NOT NULL DEFAULT 1 CHECK (keyed IN (0, 1)),
    state           INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 3),
    nbf             INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    first_at        INTEGER NOT NULL,
    attempts        INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    revision        INTEGER NOT NULL DEFAULT 1 CHECK (revision >= 1),
    merged          INTEGER NOT NULL DEFAULT 0 CHECK (merged >= 0),
    reason          TEXT,
    payload         BLOB,
    properties      TEXT,
    expires_at      INTEGER,
    claim_count     INTEGER NOT NULL DEFAULT 0 CHECK (claim_count >= 0),
    claim_history   TEXT,
    origin          TEXT,
    first_failed_at INTEGER,
    last_failed_at  INTEGER,
    lease_token     INTEGER,
    lease_revision  INTEGER,
    lease_owner     INTEGER,
    lease_claim     TEXT,
    lease_until     INTEGER,
    CHECK ((state = 1) = (lease_token IS NOT NULL)),
    CHECK ((lease_token IS NULL) = (lease_revision IS NULL) AND (lease_token IS NULL) = (lease_until IS NULL)),
    CHECK ((lease_token IS NULL) = (lease_owner IS NULL AND lease_claim IS NULL)),
    CHECK ((subtype = 'delayed') OR dated = 0)
) STRICT;
CREATE UNIQUE INDEX event_key ON events (type, reference, subtype, dated) WHERE keyed;
CREATE INDEX event_ready ON events (type, nbf, id) WHERE state = 0;
-- One run for each (type, reference): the rule of the claim, repeated.
CREATE UNIQUE INDEX event_leased ON events (type, reference) WHERE state = 1 AND keyed;
CREATE INDEX event_unkeyed ON events (type, reference) WHERE NOT keyed;
CREATE INDEX event_claim ON events (lease_claim) WHERE lease_claim IS NOT NULL;
CREATE INDEX event_until ON events (lease_until) WHERE state = 1;
CREATE INDEX event_dead ON events (id) WHERE state = 2 OR origin IS NOT NULL;
CREATE INDEX event_expiring ON events (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX event_list ON events (type, id);

CREATE TABLE event_history (
    position   INTEGER PRIMARY KEY AUTOINCREMENT,
    id         INTEGER NOT NULL,
    type       TEXT NOT NULL,
    reference  TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    reason     TEXT,
    created_at INTEGER NOT NULL,
    handled_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX event_history_type ON event_history (type, position);
CREATE INDEX event_history_expires ON event_history (expires_at);

CREATE TABLE subscriptions (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    type       TEXT NOT NULL REFERENCES event_types (name),
    url        TEXT NOT NULL,
    options    TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX subscription_key ON subscriptions (type, url);

CREATE TABLE event_outbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    notification TEXT NOT NULL UNIQUE,
    queue        TEXT NOT NULL,
    message      BLOB NOT NULL,
    type         TEXT NOT NULL,
    reference    TEXT NOT NULL,
    attempts     INTEGER NOT NULL DEFAULT 0,
    next_at      INTEGER NOT NULL DEFAULT 0,
    error        TEXT,
    created_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX event_outbox_queue ON event_outbox (queue, id);

CREATE TABLE named_leases (
    name  TEXT PRIMARY KEY,
    owner INTEGER,
    epoch INTEGER NOT NULL
) STRICT;
