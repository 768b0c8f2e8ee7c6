-- A store of 0.1.0 (schema 3) that was lived in, as that program left it.
PRAGMA application_id = 1919185526;
CREATE TABLE schema_changes (namespace TEXT NOT NULL, number INTEGER NOT NULL, checksum TEXT NOT NULL, applied_at INTEGER NOT NULL, PRIMARY KEY (namespace, number)) WITHOUT ROWID, STRICT;
CREATE TABLE settings (
    only_row        INTEGER PRIMARY KEY CHECK (only_row = 1),
    minimum_version INTEGER NOT NULL CHECK (minimum_version >= 0),
    fingerprint     TEXT,
    identity        TEXT CHECK (length(identity) = 36)
, broker TEXT) STRICT;
CREATE TABLE numbers (
    name  TEXT NOT NULL PRIMARY KEY CHECK (name IN ('epoch', 'generation')),
    value INTEGER NOT NULL CHECK (value >= 0)
) STRICT;
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
, broker TEXT) STRICT;
CREATE TRIGGER audit_refuses_update BEFORE UPDATE ON audit
    BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
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
    removing   INTEGER NOT NULL DEFAULT 0 CHECK (removing IN (0, 1)), broker TEXT,
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
CREATE TABLE event_token (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), value INTEGER NOT NULL) STRICT;
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
    uid             TEXT NOT NULL DEFAULT '', trace TEXT,
    CHECK ((state = 1) = (lease_token IS NOT NULL)),
    CHECK ((lease_token IS NULL) = (lease_revision IS NULL) AND (lease_token IS NULL) = (lease_until IS NULL)),
    CHECK ((lease_token IS NULL) = (lease_owner IS NULL AND lease_claim IS NULL)),
    CHECK ((subtype = 'delayed') OR dated = 0)
) STRICT;
CREATE UNIQUE INDEX event_key ON events (type, reference, subtype, dated) WHERE keyed;
CREATE INDEX event_ready ON events (type, nbf, id) WHERE state = 0;
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
CREATE UNIQUE INDEX saves_taking ON saves (queue) WHERE state = 'taking';
CREATE INDEX saves_by_queue ON saves (queue, id);
CREATE INDEX saves_by_until ON saves (until);
CREATE INDEX saves_by_owner ON saves (owner) WHERE owner IS NOT NULL;
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
CREATE INDEX runs_not_over ON runs (id) WHERE state IN ('running', 'canary', 'paused');
CREATE TABLE unbindings (
    queue TEXT    NOT NULL PRIMARY KEY,
    owner INTEGER REFERENCES incarnations (id) ON DELETE SET NULL
) STRICT;
CREATE INDEX unbindings_by_owner ON unbindings (owner) WHERE owner IS NOT NULL;
CREATE INDEX incarnations_alive ON incarnations (id) WHERE alive;
CREATE INDEX delivery_queues_by_wanted_by_incarnation ON delivery_queues (wanted_by_incarnation)
    WHERE wanted_by_incarnation IS NOT NULL;
CREATE TABLE stored_letters (
    place   INTEGER PRIMARY KEY AUTOINCREMENT,
    letter  TEXT    NOT NULL UNIQUE,
    message BLOB    NOT NULL,
    bytes   INTEGER NOT NULL CHECK (bytes >= 0),
    at      INTEGER NOT NULL,
    body    BLOB    NOT NULL
) STRICT;
CREATE TABLE broker_policies (
    only_row INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    document TEXT    NOT NULL,
    taken_at INTEGER NOT NULL
) STRICT;
CREATE TABLE looks (
    queue TEXT    NOT NULL PRIMARY KEY,
    seen  TEXT    NOT NULL,
    at    INTEGER NOT NULL
) STRICT;
CREATE INDEX looks_by_age ON looks (at);
CREATE TABLE audit_chain (
    only_row     INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    removed      INTEGER NOT NULL CHECK (removed >= 0),
    removed_id   INTEGER NOT NULL,
    removed_hash TEXT NOT NULL,
    removed_at   INTEGER,
    newest_id    INTEGER NOT NULL,
    newest_hash  TEXT NOT NULL
) STRICT;
CREATE TRIGGER audit_moves_its_end AFTER INSERT ON audit
    BEGIN UPDATE audit_chain SET newest_id = NEW.id, newest_hash = NEW.hash; END;
CREATE TRIGGER audit_refuses_delete BEFORE DELETE ON audit
    WHEN OLD.id > COALESCE((SELECT removed_id FROM audit_chain), 0)
    BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TABLE forgotten_endpoints (
    only_row INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    epoch    INTEGER NOT NULL CHECK (epoch >= 0)
) STRICT;
CREATE INDEX runs_by_ended_at ON runs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_ended ON runs (id) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_planned ON runs (created_at) WHERE state = 'planned';
CREATE INDEX runs_removing ON runs (id) WHERE removing;
CREATE INDEX saves_removing ON saves (id) WHERE removing;
CREATE INDEX policies_by_url ON policies (url);
CREATE INDEX policies_by_at ON policies (at);
CREATE INDEX rescued_by_at ON rescued (at);
CREATE INDEX event_types_by_used_at ON event_types (used_at);
CREATE TABLE broker_exchange (name TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE broker_queue (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL UNIQUE,
    bound      INTEGER NOT NULL CHECK (bound IN (0, 1)),
    used_at    INTEGER NOT NULL,
    expires_ms INTEGER CHECK (expires_ms > 0)
) STRICT;
CREATE INDEX broker_queue_expiring ON broker_queue (id) WHERE expires_ms IS NOT NULL;
CREATE TABLE broker_message (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    queue        INTEGER NOT NULL REFERENCES broker_queue (id) ON DELETE CASCADE,
    size         INTEGER NOT NULL,
    published_at INTEGER NOT NULL,
    content_type TEXT,
    message_id   TEXT,
    kind         TEXT,
    timestamp_s  INTEGER,
    headers      BLOB NOT NULL,
    body         BLOB NOT NULL,
    properties   BLOB,
    exchange     TEXT,
    routing_key  TEXT
) STRICT;
CREATE INDEX broker_message_place ON broker_message (queue, id);
CREATE TABLE broker_deletion (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    queue      INTEGER NOT NULL,
    name       TEXT NOT NULL,
    deleted_by TEXT NOT NULL
) STRICT;
CREATE TABLE broker_binding (
    exchange    TEXT NOT NULL CHECK (exchange <> ''),
    routing_key TEXT NOT NULL,
    queue       TEXT NOT NULL,
    PRIMARY KEY (exchange, routing_key, queue)
) STRICT, WITHOUT ROWID;
CREATE TABLE broker_sweep (
    only_row  INTEGER PRIMARY KEY CHECK (only_row = 1),
    looked_at INTEGER NOT NULL
) STRICT;
INSERT INTO schema_changes (namespace, number, checksum, applied_at) VALUES ('broker', 1, '2c5451a38e506b8fbdb813b7b4483539fe99f6dbd2c3aa527e62d6f9c61acc61', 1795748759708112);
INSERT INTO schema_changes (namespace, number, checksum, applied_at) VALUES ('store', 1, '5cc5aabb0ebfb7cbcab69ae76690bdec5d03a5e114089db4f272952aa5641bad', 1795748759662468);
INSERT INTO schema_changes (namespace, number, checksum, applied_at) VALUES ('store', 2, '91bedc9944bc1f799d3066e5b72cd6b22daba977d9af6fbdce3cec59d9629c97', 1795748759662468);
INSERT INTO schema_changes (namespace, number, checksum, applied_at) VALUES ('store', 3, '0f2820ace91d4651c10abe3be0418ed80951201261053e30dbe3b7ee420ca797', 1795748759662468);
INSERT INTO settings (only_row, minimum_version, fingerprint, identity, broker) VALUES (1, 0, '03a760b6', '01a21af7-88ac-704a-a941-b1edfe97f973', 'embedded');
INSERT INTO numbers (name, value) VALUES ('epoch', 1795748763752);
INSERT INTO numbers (name, value) VALUES ('generation', 1795748766887);
INSERT INTO incarnations (id, name, host, pid, version, fingerprint, take_over, counter, alive, started_at, beat_at, ended_at, machine, process_started, deadline) VALUES (1, 'redrive-21474-4effa3ee', 'vm', 21474, 1000, '03a760b6', 60000000, 8, 0, 1795748759733288, 1795748766772890, 1795748767313123, 'd5791df8-5c4d-452f-9d5e-a693956799e0 pid:[4026531836]', 346031, 15000000);
INSERT INTO delivery_queues (name, execution, url, epoch, owner, paused_by, paused_reason, paused_at, wanted_by, closing, refused, refusing, quarantined, has_companion, head_message, head_failures, head_first_failed_at, head_last_failed_at, head_last_status, head_last_error, head_next_attempt_at, head_parked, head_phase, head_attempts_allowed, decision_id, decision_message, decision_reason, decision_epoch, refusals_in_row, delivered, last_delivered_at, active_at, created_at, head_event_type, head_polling_time, head_restart_count, head_asked_until, wanted_by_incarnation, head_fingerprint, decision_fingerprint) VALUES ('redrive.run.bcd392f3be3c4505db11d8982e87fe0e', 'run', 'http://127.0.0.1:9/hook', 1795748763752, NULL, NULL, NULL, NULL, NULL, 'open', NULL, NULL, NULL, 0, '01a20d77-a200-75f5-a98b-fa64fc74775d', 2, 1795748763763734, 1795748763768157, NULL, 'client error (Connect): tcp connect error: Connection refused (os error 111)', NULL, 0, 'pre_backoff', 44, NULL, NULL, NULL, NULL, 0, 0, NULL, 1795748763768157, 1795748763748022, NULL, NULL, NULL, NULL, NULL, X'5eb0688beb15f1f82d9d8e582ebd43bb', NULL);
INSERT INTO endpoints (url, state, epoch, since, attempts, next_attempt_at, last_status, last_error, last_success_at, probe_queue, probe_message, probe_token, probe_until) VALUES ('http://127.0.0.1:9/hook', 'disabled', 1795748766819, 1795748766819243, 2, NULL, NULL, 'disabled by cli:root@vm', NULL, 'redrive.run.bcd392f3be3c4505db11d8982e87fe0e', '01a20d77-a200-75f5-a98b-fa64fc74775d', NULL, NULL);
INSERT INTO attempts (id, message_id, queue, url, number, epoch, started_at, duration_ms, class, status, error, response, counted) VALUES (1, '01a20d77-a200-75f5-a98b-fa64fc74775d', 'redrive.run.bcd392f3be3c4505db11d8982e87fe0e', 'http://127.0.0.1:9/hook', 1, 1795748763752, 1795748763762224, 0, 'failed', NULL, 'client error (Connect): tcp connect error: Connection refused (os error 111)', NULL, 1);
INSERT INTO attempts (id, message_id, queue, url, number, epoch, started_at, duration_ms, class, status, error, response, counted) VALUES (2, '01a20d77-a200-75f5-a98b-fa64fc74775d', 'redrive.run.bcd392f3be3c4505db11d8982e87fe0e', 'http://127.0.0.1:9/hook', 2, 1795748763752, 1795748763765836, 0, 'failed', NULL, 'client error (Connect): tcp connect error: Connection refused (os error 111)', NULL, 1);
INSERT INTO audit (id, at, actor, command, target, reason, plan, result, detail, hash, broker) VALUES (1, 1795748766817986, 'cli:root@vm', 'endpoint disable', 'http://127.0.0.1:9/hook', 'dünn', 'd669cc7359dea38111b12dd3d1a3bec5565ebd5f32c638c99fcd48940aafebf3', 'planned', 'disable http://127.0.0.1:9/hook', 'a4ba807d1f4761f08104b8abeb064c8a9b47629ea32ceb93ee7afbf02058af1f', 'embedded');
INSERT INTO audit (id, at, actor, command, target, reason, plan, result, detail, hash, broker) VALUES (2, 1795748766823493, 'cli:root@vm', 'endpoint disable', 'http://127.0.0.1:9/hook', 'dünn', 'd669cc7359dea38111b12dd3d1a3bec5565ebd5f32c638c99fcd48940aafebf3', 'done', 'disable http://127.0.0.1:9/hook', '38a409041159540c80cbf619364b0c1fa1940b21c1c822bd0a5d3fc437c5458f', 'embedded');
INSERT INTO audit (id, at, actor, command, target, reason, plan, result, detail, hash, broker) VALUES (3, 1795748766882811, 'cli:root@vm', 'policy set', 'http://127.0.0.1:9/other', NULL, '64ce063aa7163d3d1b94075191792d92df1ee1c7e621230bd49782fd00600403', 'planned', 'set the retry policy of http://127.0.0.1:9/other', '4787e47c4c57aaf2fd9c6012f44c8acc5e24be9c1275f83132c9d96ad139ffa6', 'embedded');
INSERT INTO audit (id, at, actor, command, target, reason, plan, result, detail, hash, broker) VALUES (4, 1795748766890101, 'cli:root@vm', 'policy set', 'http://127.0.0.1:9/other', NULL, '64ce063aa7163d3d1b94075191792d92df1ee1c7e621230bd49782fd00600403', 'done', 'set the retry policy of http://127.0.0.1:9/other', '65a84b61365e3775e310953b9c36710802a9890735ddb32a6b1b3116cf8a28b3', 'embedded');
INSERT INTO audit (id, at, actor, command, target, reason, plan, result, detail, hash, broker) VALUES (5, 1795748766948158, 'cli:root@vm', 'event-type set', 't', NULL, '30ffc81464f9253077c4a06e9c0a85c810c077af0d51610d3b845c90e761f781', 'planned', 'set the metadata of event type "t"', '1f732609666e80fc7099276ccc8a022665dc690e6f84b73c4cd4125115ed677f', 'embedded');
INSERT INTO audit (id, at, actor, command, target, reason, plan, result, detail, hash, broker) VALUES (6, 1795748766953033, 'cli:root@vm', 'event-type set', 't', NULL, '30ffc81464f9253077c4a06e9c0a85c810c077af0d51610d3b845c90e761f781', 'done', 'set the metadata of event type "t"', 'c6b3982af3d4a76d4c6b6d18ef6cc614641c0941901d2e3c714973a83583936b', 'embedded');
INSERT INTO audit (id, at, actor, command, target, reason, plan, result, detail, hash, broker) VALUES (7, 1795748767011825, 'cli:root@vm', 'subscription add', 'http://127.0.0.1:9/hook', NULL, '9886786967d3142ba20afeb4310230b1d1fe7356922b8094ff43bd39c9066e89', 'planned', 'subscribe http://127.0.0.1:9/hook to "t"', '233df1d205a8bd8557b5f68dcf2366b06ea95567fc63067e7fc002f4a8476fd9', 'embedded');
INSERT INTO audit (id, at, actor, command, target, reason, plan, result, detail, hash, broker) VALUES (8, 1795748767015534, 'cli:root@vm', 'subscription add', 'http://127.0.0.1:9/hook', NULL, '9886786967d3142ba20afeb4310230b1d1fe7356922b8094ff43bd39c9066e89', 'done', 'subscribe http://127.0.0.1:9/hook to "t"', '049cbf7d72671916623c187cebed3582b383b8c47f62f3152179b7deb9a4974e', 'embedded');
INSERT INTO policies (event_type, url, version, document, author, at) VALUES ('', 'http://127.0.0.1:9/other', 1, '{"maximum_delay":60}', 'cli:root@vm', 1795748766885428);
INSERT INTO event_token (only_row, value) VALUES (1, 0);
INSERT INTO event_types (name, document, max_claim_count, dead_letter_type, dead_letter_ttl, coalesce_window, coalesce_max, cutoff, backoff_base, backoff_cap, history_ttl, is_target, created_at, updated_at, used_at) VALUES ('t', '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1795748766950964, 1795748766950964, 1795748767124838);
INSERT INTO events (id, type, subtype, reference, dated, keyed, state, nbf, created_at, first_at, attempts, revision, merged, reason, payload, properties, expires_at, claim_count, claim_history, origin, first_failed_at, last_failed_at, lease_token, lease_revision, lease_owner, lease_claim, lease_until, uid, trace) VALUES (1, 't', 'delayed', 'a', 4102444800000000, 1, 0, 4102444800000000, 1795748767068532, 1795748767068532, 0, 1, 0, NULL, X'7b226e223a317d', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'c1e0608b350683e985499c331219b13c', NULL);
INSERT INTO events (id, type, subtype, reference, dated, keyed, state, nbf, created_at, first_at, attempts, revision, merged, reason, payload, properties, expires_at, claim_count, claim_history, origin, first_failed_at, last_failed_at, lease_token, lease_revision, lease_owner, lease_claim, lease_until, uid, trace) VALUES (2, 't', 'delayed', 'b', 4102444800000000, 1, 0, 4102444800000000, 1795748767124838, 1795748767124838, 0, 1, 0, NULL, X'7b226e223a317d', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '74c8a05dd143befcb1a995168082cb61', NULL);
INSERT INTO subscriptions (id, type, url, options, created_at) VALUES (1, 't', 'http://127.0.0.1:9/hook', '{}', 1795748767014074);
INSERT INTO named_leases (name, owner, epoch) VALUES ('outbox', NULL, 1795748759736);
INSERT INTO named_leases (name, owner, epoch) VALUES ('alerts', NULL, 1795748759738);
INSERT INTO janitor (only_row, owner, sweep, swept_at, queues, soon, soon_messages) VALUES (1, 1, 1, 1795748759755832, 0, 0, 0);
INSERT INTO broker_policies (only_row, document, taken_at) VALUES (1, '[]', 1795748759742485);
INSERT INTO audit_chain (only_row, removed, removed_id, removed_hash, removed_at, newest_id, newest_hash) VALUES (1, 0, 0, '', NULL, 8, '049cbf7d72671916623c187cebed3582b383b8c47f62f3152179b7deb9a4974e');
INSERT INTO forgotten_endpoints (only_row, epoch) VALUES (1, 0);
INSERT INTO broker_exchange (name) VALUES ('redrive.03a760b6');
INSERT INTO broker_queue (id, name, bound, used_at, expires_ms) VALUES (1, 'redrive.dead', 1, 1795748759721890, NULL);
INSERT INTO broker_queue (id, name, bound, used_at, expires_ms) VALUES (4, 'redrive.run.bcd392f3be3c4505db11d8982e87fe0e', 1, 1795748763770734, NULL);
INSERT INTO broker_queue (id, name, bound, used_at, expires_ms) VALUES (13, 'jobs.01a21af7-a5cc-7673-a61a-324d9bc24ed8.progress', 1, 1795748767181773, 600000);
INSERT INTO broker_queue (id, name, bound, used_at, expires_ms) VALUES (14, 'jobs.01a21af7-a5cc-7673-a61a-324d9bc24ed8.status', 1, 1795748767183146, 600000);
INSERT INTO broker_queue (id, name, bound, used_at, expires_ms) VALUES (15, 'jobs.01a21af7-a5cc-7673-a61a-324d9bc24ed8.result', 1, 1795748767185161, 600000);
INSERT INTO broker_message (id, queue, size, published_at, content_type, message_id, kind, timestamp_s, headers, body, properties, exchange, routing_key) VALUES (1, 4, 76, 1795748763746626, NULL, '01a20d77-a200-75f5-a98b-fa64fc74775d', 'notification', 1795748763, X'0000000d782d726564726976652d75726c7400000017687474703a2f2f3132372e302e302e313a392f686f6f6b00000013782d726564726976652d657865637574696f6e740000000372756e', X'', NULL, NULL, NULL);
INSERT INTO broker_sweep (only_row, looked_at) VALUES (1, 1795748767183155);
