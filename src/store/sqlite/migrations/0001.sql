-- The base. Times are microseconds since the Unix epoch by the host's clock; truth values are 0 and 1.
-- The file is shared with the embedded broker, whose tables have names of their own.

-- What all incarnations share.
CREATE TABLE settings (
    only_row        INTEGER PRIMARY KEY CHECK (only_row = 1),
    minimum_version INTEGER NOT NULL CHECK (minimum_version >= 0),
    fingerprint     TEXT,
    identity        TEXT CHECK (length(identity) = 36)
) STRICT;
INSERT INTO settings VALUES (1, 0, NULL, NULL);

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
    machine     TEXT,
    process_started INTEGER,
    deadline    INTEGER CHECK (deadline > 0),
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
    head_event_type       TEXT,
    head_polling_time     INTEGER CHECK (head_polling_time >= 0),
    head_restart_count    INTEGER CHECK (head_restart_count >= 0),
    head_asked_until      INTEGER,
    wanted_by_incarnation INTEGER,
    head_fingerprint      BLOB,
    decision_fingerprint  BLOB,
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

CREATE TABLE rescued (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    queue        TEXT NOT NULL,
    header_frame BLOB NOT NULL,
    body         BLOB NOT NULL,
    reason       TEXT NOT NULL,
    at           INTEGER NOT NULL
) STRICT;
CREATE INDEX rescued_by_queue_id ON rescued (queue, id);

-- What was looked at of dead-letter queues. A row of a message is the look of one generation; what a whole
-- look did not see any more is removed at its end.
CREATE TABLE dead_queues (
    name         TEXT NOT NULL PRIMARY KEY,
    generation   INTEGER NOT NULL DEFAULT 0 CHECK (generation >= 0),
    claimed_by   TEXT,
    claimed_until INTEGER,
    seen         INTEGER NOT NULL DEFAULT 0 CHECK (seen >= 0),
    expected     INTEGER,
    looked_at    INTEGER,
    messages     INTEGER,
    looks        INTEGER NOT NULL DEFAULT 0 CHECK (looks >= 0),
    problem      TEXT
) STRICT;

CREATE TABLE dead_letters (
    id              TEXT NOT NULL PRIMARY KEY,
    home            TEXT NOT NULL CHECK (home IN ('broker', 'event', 'store')),
    queue           TEXT NOT NULL,
    generation      INTEGER NOT NULL,
    position        INTEGER NOT NULL CHECK (position >= 0),
    origin          TEXT,
    message_id      TEXT,
    url             TEXT,
    execution       TEXT,
    reason          TEXT NOT NULL,
    class           TEXT,
    status          INTEGER,
    error           TEXT,
    attempts        INTEGER,
    first_failed_at INTEGER,
    last_failed_at  INTEGER,
    expires_at      INTEGER,
    redriven        INTEGER NOT NULL CHECK (redriven >= 0),
    fingerprint     TEXT NOT NULL,
    place           TEXT NOT NULL,
    what            TEXT NOT NULL,
    size_bytes      INTEGER NOT NULL CHECK (size_bytes >= 0),
    redelivered     INTEGER NOT NULL CHECK (redelivered IN (0, 1)),
    copy            BLOB
) STRICT;
CREATE INDEX dead_letters_by_queue ON dead_letters (queue, generation);
CREATE INDEX dead_letters_by_last_failed_at ON dead_letters (COALESCE(last_failed_at, 0) DESC, id);
CREATE INDEX dead_letters_by_fingerprint ON dead_letters (fingerprint, COALESCE(last_failed_at, 0) DESC, id);

-- Runs with their leases and journals, and messages that are kept for a while.

CREATE TABLE runs (
    id         TEXT    NOT NULL PRIMARY KEY,
    command    TEXT    NOT NULL,
    state      TEXT    NOT NULL
               CHECK (state IN ('planned', 'running', 'canary', 'paused', 'done', 'failed', 'cancelled')),
    done       INTEGER NOT NULL DEFAULT 0 CHECK (done >= 0),
    failed     INTEGER NOT NULL DEFAULT 0 CHECK (failed >= 0),
    skipped    INTEGER NOT NULL DEFAULT 0 CHECK (skipped >= 0),
    total      INTEGER NOT NULL DEFAULT 0 CHECK (total >= 0),
    rate       INTEGER CHECK (rate > 0),
    canary     INTEGER CHECK (canary > 0),
    actor      TEXT    NOT NULL DEFAULT '',
    reason     TEXT,
    note       TEXT,
    plan       TEXT    NOT NULL DEFAULT '',
    hash       TEXT    NOT NULL DEFAULT '',
    owner      INTEGER REFERENCES incarnations (id) ON DELETE SET NULL,
    epoch      INTEGER NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    updated_at INTEGER NOT NULL,
    ended_at   INTEGER,
    removing   INTEGER NOT NULL DEFAULT 0 CHECK (removing IN (0, 1)),
    CHECK (owner IS NULL OR epoch > 0),
    CHECK (state <> 'planned' OR started_at IS NULL)
) STRICT;
CREATE INDEX runs_by_state ON runs (state);
CREATE INDEX runs_by_owner ON runs (owner) WHERE owner IS NOT NULL;

CREATE TABLE run_items (
    run     TEXT    NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL CHECK (ordinal >= 0),
    letter  TEXT    NOT NULL,
    source  TEXT    NOT NULL,
    target  TEXT,
    bytes   INTEGER NOT NULL CHECK (bytes >= 0),
    state   TEXT    NOT NULL CHECK (state IN
            ('planned', 'journalled', 'published', 'settled', 'failed', 'skipped', 'returned')),
    reason  TEXT,
    dropped TEXT,
    PRIMARY KEY (run, ordinal)
) WITHOUT ROWID, STRICT;

-- One run works on a source queue at a time.
CREATE TABLE run_sources (
    queue TEXT NOT NULL PRIMARY KEY,
    run   TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE
) WITHOUT ROWID, STRICT;
CREATE INDEX run_sources_by_run ON run_sources (run);

CREATE TABLE kept_messages (
    letter  TEXT    NOT NULL,
    kind    TEXT    NOT NULL CHECK (kind IN ('discarded', 'edited', 'original')),
    queue   TEXT    NOT NULL,
    message BLOB    NOT NULL,
    run     TEXT,
    actor   TEXT    NOT NULL,
    at      INTEGER NOT NULL,
    until   INTEGER,
    PRIMARY KEY (kind, letter)
) STRICT;
CREATE INDEX kept_messages_by_run ON kept_messages (run, letter);
CREATE INDEX kept_messages_by_until ON kept_messages (until) WHERE until IS NOT NULL;

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
    used_at          INTEGER NOT NULL DEFAULT 0,
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
    uid             TEXT NOT NULL DEFAULT '',
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

-- What a policy applies to a waiting head by, and what the head and its receiver asked for: a changed policy is
-- applied to what waits already.

-- Messages that were saved from queues that expire, and what was last seen of such queues.

CREATE TABLE saves (
    id        TEXT    NOT NULL PRIMARY KEY,
    queue     TEXT    NOT NULL,
    arguments TEXT    NOT NULL,
    cause     TEXT    NOT NULL CHECK (cause IN ('save', 'purge', 'expiry')),
    state     TEXT    NOT NULL CHECK (state IN ('taking', 'kept', 'restored')),
    owner     INTEGER REFERENCES incarnations (id) ON DELETE SET NULL,
    actor     TEXT    NOT NULL,
    reason    TEXT,
    messages  INTEGER NOT NULL DEFAULT 0 CHECK (messages >= 0),
    bytes     INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    at        INTEGER NOT NULL,
    until     INTEGER NOT NULL,
    removing  INTEGER NOT NULL DEFAULT 0 CHECK (removing IN (0, 1))
) STRICT;
-- One takes the messages of a queue at a time.
CREATE UNIQUE INDEX saves_taking ON saves (queue) WHERE state = 'taking';
CREATE INDEX saves_by_queue ON saves (queue, id);
CREATE INDEX saves_by_until ON saves (until);
CREATE INDEX saves_by_owner ON saves (owner) WHERE owner IS NOT NULL;

-- `win` says which messages were settled at once.
CREATE TABLE saved_messages (
    save        TEXT    NOT NULL REFERENCES saves (id) ON DELETE CASCADE,
    place       INTEGER NOT NULL CHECK (place >= 0),
    win         INTEGER NOT NULL CHECK (win >= 0),
    message     BLOB    NOT NULL,
    bytes       INTEGER NOT NULL CHECK (bytes >= 0),
    exchange    TEXT    NOT NULL,
    routing_key TEXT    NOT NULL,
    PRIMARY KEY (save, place)
) STRICT;

CREATE TABLE lifetimes (
    name         TEXT    NOT NULL PRIMARY KEY,
    quorum       INTEGER NOT NULL CHECK (quorum IN (0, 1)),
    lifetime_ms  INTEGER,
    argument_ms  INTEGER,
    by_operator  INTEGER NOT NULL CHECK (by_operator IN (0, 1)),
    consumers    INTEGER,
    messages     INTEGER,
    bytes        INTEGER,
    unused_since INTEGER,
    expires_at   INTEGER,
    seen_at      INTEGER NOT NULL,
    sweep        INTEGER NOT NULL
) STRICT;
CREATE INDEX lifetimes_by_sweep ON lifetimes (sweep);

CREATE TABLE janitor (
    only_row      INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    owner         INTEGER REFERENCES incarnations (id) ON DELETE SET NULL,
    sweep         INTEGER NOT NULL DEFAULT 0,
    swept_at      INTEGER,
    queues        INTEGER NOT NULL DEFAULT 0,
    soon          INTEGER NOT NULL DEFAULT 0,
    soon_messages INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO janitor (only_row) VALUES (1);

-- Finding events by what went wrong: the texts of failures by their parts of three characters. Events that never
-- failed are in none of these.

CREATE VIRTUAL TABLE event_errors USING fts5 (reason, content = '', tokenize = 'trigram');
CREATE TRIGGER event_error_new AFTER INSERT ON events WHEN substr(NEW.reason, 1, 7) = 'retry: ' BEGIN
    INSERT INTO event_errors (rowid, reason) VALUES (NEW.id, NEW.reason);
END;
CREATE TRIGGER event_error_gone AFTER DELETE ON events WHEN substr(OLD.reason, 1, 7) = 'retry: ' BEGIN
    INSERT INTO event_errors (event_errors, rowid, reason) VALUES ('delete', OLD.id, OLD.reason);
END;
CREATE TRIGGER event_error_changed AFTER UPDATE OF reason ON events
    WHEN OLD.reason IS NOT NEW.reason AND (substr(OLD.reason, 1, 7) = 'retry: ' OR substr(NEW.reason, 1, 7) = 'retry: ')
BEGIN
    INSERT INTO event_errors (event_errors, rowid, reason)
        SELECT 'delete', OLD.id, OLD.reason WHERE substr(OLD.reason, 1, 7) = 'retry: ';
    INSERT INTO event_errors (rowid, reason) SELECT NEW.id, NEW.reason WHERE substr(NEW.reason, 1, 7) = 'retry: ';
END;
CREATE INDEX event_attempts ON events (id) WHERE attempts > 0;

-- Whoever watches asks every second for the runs that are not over; those that are stay for weeks.

CREATE INDEX runs_not_over ON runs (id) WHERE state IN ('running', 'canary', 'paused');

-- Queues that are unbound while they are purged: what a dead one left unbound is bound again.

CREATE TABLE unbindings (
    queue TEXT    NOT NULL PRIMARY KEY,
    owner INTEGER REFERENCES incarnations (id) ON DELETE SET NULL
) STRICT;
CREATE INDEX unbindings_by_owner ON unbindings (owner) WHERE owner IS NOT NULL;

-- Who is dead, and whose wish counts. A wish for a queue belongs to an incarnation and counts while that lives.

CREATE INDEX incarnations_alive ON incarnations (id) WHERE alive;

CREATE INDEX delivery_queues_by_wanted_by_incarnation ON delivery_queues (wanted_by_incarnation)
    WHERE wanted_by_incarnation IS NOT NULL;

-- Dead letters that no queue of the broker takes, whole. The body stands last: what is read without it does not pass it.
CREATE TABLE stored_letters (
    place   INTEGER PRIMARY KEY AUTOINCREMENT,
    letter  TEXT    NOT NULL UNIQUE,
    message BLOB    NOT NULL,
    bytes   INTEGER NOT NULL CHECK (bytes >= 0),
    at      INTEGER NOT NULL,
    body    BLOB    NOT NULL
) STRICT;

-- A head and a decision are about one message, not about every message with its id. Rows without a fingerprint were
-- written before: they are matched by the id alone.

-- What is known of the broker and has to be asked for nowhere else: its policies, and what looks cost.

CREATE TABLE broker_policies (
    only_row INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    document TEXT    NOT NULL,
    taken_at INTEGER NOT NULL
) STRICT;

-- Queues whose messages outlive a limited number of returns: how many those had that were looked at.
CREATE TABLE looks (
    queue TEXT    NOT NULL PRIMARY KEY,
    seen  TEXT    NOT NULL,
    at    INTEGER NOT NULL
) STRICT;
CREATE INDEX looks_by_age ON looks (at);

-- What this store is told by from every other one: a UUID, made by the program with the first opening.

-- What grows is trimmed in pages.

-- The ends of the chain that the audit is: what retention removed (`removed` lines, the last of them with this id
-- and hash, at that time), and the newest line. Nothing but what is removed already can be deleted.
CREATE TABLE audit_chain (
    only_row     INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    removed      INTEGER NOT NULL CHECK (removed >= 0),
    removed_id   INTEGER NOT NULL,
    removed_hash TEXT NOT NULL,
    removed_at   INTEGER,
    newest_id    INTEGER NOT NULL,
    newest_hash  TEXT NOT NULL
) STRICT;
INSERT INTO audit_chain VALUES (1, 0, 0, '', NULL, 0, '');
CREATE TRIGGER audit_moves_its_end AFTER INSERT ON audit
    BEGIN UPDATE audit_chain SET newest_id = NEW.id, newest_hash = NEW.hash; END;
CREATE TRIGGER audit_refuses_delete BEFORE DELETE ON audit
    WHEN OLD.id > COALESCE((SELECT removed_id FROM audit_chain), 0)
    BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

-- The epoch that an endpoint begins with: above that of each that was forgotten, so that no number of an endpoint that
-- comes back goes back.
CREATE TABLE forgotten_endpoints (
    only_row INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    epoch    INTEGER NOT NULL CHECK (epoch >= 0)
) STRICT;
INSERT INTO forgotten_endpoints VALUES (1, 0);

-- What is removed page by page counts as gone from its first page on.
CREATE INDEX runs_by_ended_at ON runs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_ended ON runs (id) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_planned ON runs (created_at) WHERE state = 'planned';
CREATE INDEX runs_removing ON runs (id) WHERE removing;
CREATE INDEX saves_removing ON saves (id) WHERE removing;
CREATE INDEX policies_by_url ON policies (url);
CREATE INDEX policies_by_at ON policies (at);
CREATE INDEX rescued_by_at ON rescued (at);

-- When a type was pushed to, claimed from or set last, about: one that nobody uses can go.
CREATE INDEX event_types_by_used_at ON event_types (used_at);

-- What the ids of an event's notifications are made from: random, made anew by each push, and shown to nobody.
