-- A store of schema 1 that was lived in, as the program of that schema left it.

CREATE SCHEMA redrive;
CREATE TABLE redrive.schema_changes (number bigint PRIMARY KEY, checksum text NOT NULL, applied_at bigint NOT NULL);
INSERT INTO redrive.schema_changes VALUES (1, 'f93708d50e0e5834d1f833bbfe8acfa23c0cf4adbe62a664b09cd60d4d39f9ea', 1795522270952345);

-- The base. Times are microseconds since the Unix epoch by this database's clock. Text that is
-- compared with the broker's sorts by bytes. A URL may be longer than an index entry can be, so URLs are
-- found by their SHA-256.

CREATE FUNCTION redrive.store_now() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- Immutable because the encoding of a database never changes.
CREATE FUNCTION redrive.url_key(url text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT sha256(convert_to(url, 'UTF8')) $$;

-- What all incarnations share. Each of the three rows' numbers is drawn under its own row lock.
CREATE TABLE redrive.settings (
    only_row        bigint PRIMARY KEY CHECK (only_row = 1),
    minimum_version bigint NOT NULL CHECK (minimum_version >= 0),
    fingerprint     text,
    identity        text CHECK (length(identity) = 36)
);
INSERT INTO redrive.settings VALUES (1, 0, NULL, NULL);

CREATE TABLE redrive.numbers (
    name  text PRIMARY KEY CHECK (name IN ('epoch', 'generation')),
    value bigint NOT NULL CHECK (value >= 0)
);
INSERT INTO redrive.numbers VALUES ('epoch', 0), ('generation', 0);

CREATE TABLE redrive.incarnations (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL,
    host        text NOT NULL,
    pid         bigint NOT NULL,
    version     bigint NOT NULL,
    fingerprint text,
    take_over   bigint NOT NULL CHECK (take_over > 0),
    counter     bigint NOT NULL DEFAULT 0 CHECK (counter >= 0),
    alive       boolean NOT NULL,
    started_at  bigint NOT NULL,
    beat_at     bigint NOT NULL,
    ended_at    bigint,
    machine     text,
    process_started bigint,
    deadline    bigint CHECK (deadline > 0),
    CHECK (alive = (ended_at IS NULL))
);
CREATE INDEX ON redrive.incarnations (ended_at);

CREATE TABLE redrive.delivery_queues (
    name                  text COLLATE "C" PRIMARY KEY,
    execution             text,
    url                   text COLLATE "C",
    epoch                 bigint NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    owner                 bigint REFERENCES redrive.incarnations (id),
    paused_by             text,
    paused_reason         text,
    paused_at             bigint,
    wanted_by             text,
    closing               text NOT NULL DEFAULT 'open' CHECK (closing IN ('open', 'ended', 'closing')),
    refused               text,
    refusing              text,
    quarantined           text,
    has_companion         boolean NOT NULL DEFAULT false,
    head_message          text,
    head_failures         bigint,
    head_first_failed_at  bigint,
    head_last_failed_at   bigint,
    head_last_status      bigint,
    head_last_error       text,
    head_next_attempt_at  bigint,
    head_parked           boolean,
    head_phase            text CHECK (head_phase IN ('immediate', 'pre_backoff', 'backoff', 'post_backoff')),
    head_attempts_allowed bigint,
    decision_id           text,
    decision_message      text,
    decision_reason       text,
    decision_epoch        bigint,
    refusals_in_row       bigint NOT NULL DEFAULT 0 CHECK (refusals_in_row >= 0),
    delivered             bigint NOT NULL DEFAULT 0 CHECK (delivered >= 0),
    last_delivered_at     bigint,
    active_at             bigint NOT NULL,
    created_at            bigint NOT NULL,
    head_event_type       text,
    head_polling_time     bigint CHECK (head_polling_time >= 0),
    head_restart_count    bigint CHECK (head_restart_count >= 0),
    head_asked_until      bigint,
    wanted_by_incarnation bigint,
    head_fingerprint      bytea,
    decision_fingerprint  bytea,
    CHECK (owner IS NULL OR epoch > 0),
    CHECK (num_nulls(paused_by, paused_at) IN (0, 2) AND (paused_reason IS NULL OR paused_by IS NOT NULL)),
    CHECK (num_nulls(head_message, head_failures, head_first_failed_at, head_last_failed_at, head_parked,
                     head_attempts_allowed) IN (0, 6)),
    CHECK (head_message IS NOT NULL
           OR num_nonnulls(head_last_status, head_last_error, head_next_attempt_at, head_phase) = 0),
    CHECK (NOT (head_parked AND head_next_attempt_at IS NOT NULL)),
    CHECK (num_nulls(decision_id, decision_message, decision_reason, decision_epoch) IN (0, 4))
);
CREATE INDEX ON redrive.delivery_queues (redrive.url_key(url));
CREATE INDEX ON redrive.delivery_queues (owner) WHERE owner IS NOT NULL;
CREATE INDEX ON redrive.delivery_queues (head_next_attempt_at) WHERE head_next_attempt_at IS NOT NULL;
CREATE INDEX ON redrive.delivery_queues (name) WHERE head_parked;
CREATE INDEX ON redrive.delivery_queues (name) WHERE closing <> 'open';
CREATE INDEX ON redrive.delivery_queues (name) WHERE decision_id IS NOT NULL;

CREATE TABLE redrive.endpoints (
    url_key         bytea GENERATED ALWAYS AS (redrive.url_key(url)) STORED PRIMARY KEY,
    url             text COLLATE "C" NOT NULL,
    state           text NOT NULL DEFAULT 'available'
                    CHECK (state IN ('available', 'unavailable', 'parked', 'disabled')),
    epoch           bigint NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    since           bigint NOT NULL,
    attempts        bigint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    next_attempt_at bigint,
    last_status     bigint,
    last_error      text,
    last_success_at bigint,
    probe_queue     text,
    probe_message   text,
    probe_token     bigint,
    probe_until     bigint,
    CHECK ((state = 'unavailable') = (next_attempt_at IS NOT NULL)),
    CHECK (num_nulls(probe_token, probe_until) IN (0, 2)),
    CHECK (state = 'unavailable' OR probe_token IS NULL),
    CHECK (state <> 'available' OR (attempts = 0 AND num_nonnulls(probe_queue, probe_message) = 0))
);
CREATE INDEX ON redrive.endpoints (state) WHERE state <> 'available';

CREATE TABLE redrive.attempts (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id  text NOT NULL,
    queue       text NOT NULL,
    url         text NOT NULL,
    number      bigint NOT NULL,
    epoch       bigint NOT NULL,
    started_at  bigint NOT NULL,
    duration_ms bigint NOT NULL,
    class       text NOT NULL CHECK (class IN ('delivered', 'refused', 'gone', 'failed', 'interrupted')),
    status      bigint,
    error       text,
    response    bytea,
    counted     boolean NOT NULL
);
CREATE INDEX ON redrive.attempts (started_at, id);
CREATE INDEX ON redrive.attempts (queue, started_at, id);
CREATE INDEX ON redrive.attempts (redrive.url_key(url), started_at, id);
CREATE INDEX ON redrive.attempts (message_id, started_at, id);

CREATE TABLE redrive.audit (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      bigint NOT NULL,
    actor   text NOT NULL,
    command text NOT NULL,
    target  text NOT NULL,
    reason  text,
    plan    text,
    result  text NOT NULL,
    detail  text NOT NULL,
    hash    text NOT NULL CHECK (length(hash) = 64)
);
CREATE FUNCTION redrive.audit_is_append_only() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the audit is append-only'; END $$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR TRUNCATE ON redrive.audit
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.audit_is_append_only();

-- An absent event type or URL is the empty text, so that the key holds for it too.
CREATE TABLE redrive.policies (
    event_type text COLLATE "C" NOT NULL,
    url        text COLLATE "C" NOT NULL,
    url_key    bytea GENERATED ALWAYS AS (redrive.url_key(url)) STORED,
    version    bigint NOT NULL CHECK (version > 0),
    document   text,
    author     text NOT NULL,
    at         bigint NOT NULL,
    PRIMARY KEY (event_type, url_key, version)
);

CREATE TABLE redrive.rescued (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue        text NOT NULL,
    header_frame bytea NOT NULL,
    body         bytea NOT NULL,
    reason       text NOT NULL,
    at           bigint NOT NULL
);
CREATE INDEX ON redrive.rescued (queue, id);

-- What was looked at of dead-letter queues. A row of a message is the look of one generation; what a whole
-- look did not see any more is removed at its end.
CREATE TABLE redrive.dead_queues (
    name         text COLLATE "C" NOT NULL PRIMARY KEY,
    generation   bigint NOT NULL DEFAULT 0 CHECK (generation >= 0),
    claimed_by   text,
    claimed_until bigint,
    seen         bigint NOT NULL DEFAULT 0 CHECK (seen >= 0),
    expected     bigint,
    looked_at    bigint,
    messages     bigint,
    looks        bigint NOT NULL DEFAULT 0 CHECK (looks >= 0),
    problem      text
);

CREATE TABLE redrive.dead_letters (
    id              text COLLATE "C" NOT NULL PRIMARY KEY,
    home            text NOT NULL CHECK (home IN ('broker', 'event', 'store')),
    queue           text NOT NULL,
    generation      bigint NOT NULL,
    position        bigint NOT NULL CHECK (position >= 0),
    origin          text,
    message_id      text,
    url             text,
    execution       text,
    reason          text NOT NULL,
    class           text,
    status          bigint,
    error           text,
    attempts        bigint,
    first_failed_at bigint,
    last_failed_at  bigint,
    expires_at      bigint,
    redriven        bigint NOT NULL CHECK (redriven >= 0),
    fingerprint     text NOT NULL,
    place           text NOT NULL,
    what            text NOT NULL,
    size_bytes      bigint NOT NULL CHECK (size_bytes >= 0),
    redelivered     boolean NOT NULL,
    copy            bytea
);
CREATE INDEX dead_letters_by_queue ON redrive.dead_letters (queue, generation);
CREATE INDEX dead_letters_by_last_failed_at ON redrive.dead_letters (COALESCE(last_failed_at, 0) DESC, id);
CREATE INDEX dead_letters_by_fingerprint ON redrive.dead_letters (fingerprint, COALESCE(last_failed_at, 0) DESC, id);

-- Runs with their leases and journals, and messages that are kept for a while.

CREATE TABLE redrive.runs (
    id         text COLLATE "C" PRIMARY KEY,
    command    text NOT NULL,
    state      text NOT NULL
               CHECK (state IN ('planned', 'running', 'canary', 'paused', 'done', 'failed', 'cancelled')),
    done       bigint NOT NULL DEFAULT 0 CHECK (done >= 0),
    failed     bigint NOT NULL DEFAULT 0 CHECK (failed >= 0),
    skipped    bigint NOT NULL DEFAULT 0 CHECK (skipped >= 0),
    total      bigint NOT NULL DEFAULT 0 CHECK (total >= 0),
    rate       bigint CHECK (rate > 0),
    canary     bigint CHECK (canary > 0),
    actor      text NOT NULL DEFAULT '',
    reason     text,
    note       text,
    plan       text NOT NULL DEFAULT '',
    hash       text NOT NULL DEFAULT '',
    owner      bigint REFERENCES redrive.incarnations (id) ON DELETE SET NULL,
    epoch      bigint NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    created_at bigint NOT NULL,
    started_at bigint,
    updated_at bigint NOT NULL,
    ended_at   bigint,
    removing   boolean NOT NULL DEFAULT false,
    CHECK (owner IS NULL OR epoch > 0),
    CHECK (state <> 'planned' OR started_at IS NULL)
);
CREATE INDEX ON redrive.runs (state);
CREATE INDEX ON redrive.runs (owner) WHERE owner IS NOT NULL;

CREATE TABLE redrive.run_items (
    run     text COLLATE "C" NOT NULL REFERENCES redrive.runs (id) ON DELETE CASCADE,
    ordinal bigint NOT NULL CHECK (ordinal >= 0),
    letter  text NOT NULL,
    source  text NOT NULL,
    target  text,
    bytes   bigint NOT NULL CHECK (bytes >= 0),
    state   text NOT NULL CHECK (state IN
            ('planned', 'journalled', 'published', 'settled', 'failed', 'skipped', 'returned')),
    reason  text,
    dropped text,
    PRIMARY KEY (run, ordinal)
) WITH (fillfactor = 50);

-- One run works on a source queue at a time.
CREATE TABLE redrive.run_sources (
    queue text COLLATE "C" PRIMARY KEY,
    run   text COLLATE "C" NOT NULL REFERENCES redrive.runs (id) ON DELETE CASCADE
);
CREATE INDEX ON redrive.run_sources (run);

CREATE TABLE redrive.kept_messages (
    letter  text COLLATE "C" NOT NULL,
    kind    text NOT NULL CHECK (kind IN ('discarded', 'edited', 'original')),
    queue   text NOT NULL,
    message bytea NOT NULL,
    run     text,
    actor   text NOT NULL,
    at      bigint NOT NULL,
    until   bigint,
    PRIMARY KEY (kind, letter)
);
CREATE INDEX ON redrive.kept_messages (run, letter);
CREATE INDEX ON redrive.kept_messages (until) WHERE until IS NOT NULL;

-- The event table. Times and spans are microseconds. One row per (type, reference) that is due now and per
-- (type, reference, date) that is dated; what claims moved to a dead-letter type stands outside that key.

CREATE SEQUENCE redrive.event_token;

CREATE TABLE redrive.event_types (
    name             text COLLATE "C" PRIMARY KEY CHECK (name <> ''),
    document         text NOT NULL DEFAULT '{}',
    max_claim_count  bigint CHECK (max_claim_count >= 1),
    dead_letter_type text COLLATE "C" REFERENCES redrive.event_types (name) CHECK (dead_letter_type <> name),
    dead_letter_ttl  bigint CHECK (dead_letter_ttl > 0),
    coalesce_window  bigint CHECK (coalesce_window > 0),
    coalesce_max     bigint CHECK (coalesce_max >= coalesce_window),
    cutoff           bigint CHECK (cutoff >= 1),
    backoff_base     bigint CHECK (backoff_base > 0),
    backoff_cap      bigint CHECK (backoff_cap > 0),
    history_ttl      bigint CHECK (history_ttl > 0),
    is_target        boolean NOT NULL DEFAULT false,
    created_at       bigint NOT NULL,
    updated_at       bigint NOT NULL,
    used_at          bigint NOT NULL DEFAULT 0,
    CHECK ((coalesce_window IS NULL) = (coalesce_max IS NULL)),
    -- A dead-letter type has none itself: no chains.
    CHECK (NOT (is_target AND dead_letter_type IS NOT NULL))
);

-- States: 0 ready, 1 leased, 2 dead, 3 held.
CREATE TABLE redrive.events (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type            text COLLATE "C" NOT NULL CHECK (type <> ''),
    subtype         text COLLATE "C" NOT NULL CHECK (subtype IN ('', 'delayed')),
    reference       text COLLATE "C" NOT NULL CHECK (reference <> ''),
    dated           bigint NOT NULL DEFAULT 0,
    keyed           boolean NOT NULL DEFAULT true,
    state           bigint NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 3),
    nbf             bigint NOT NULL,
    created_at      bigint NOT NULL,
    first_at        bigint NOT NULL,
    attempts        bigint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    revision        bigint NOT NULL DEFAULT 1 CHECK (revision >= 1),
    merged          bigint NOT NULL DEFAULT 0 CHECK (merged >= 0),
    reason          text,
    payload         bytea,
    properties      text,
    expires_at      bigint,
    claim_count     bigint NOT NULL DEFAULT 0 CHECK (claim_count >= 0),
    claim_history   text,
    origin          text COLLATE "C",
    first_failed_at bigint,
    last_failed_at  bigint,
    lease_token     bigint,
    lease_revision  bigint,
    lease_owner     bigint,
    lease_claim     text COLLATE "C",
    lease_until     bigint,
    uid             text NOT NULL DEFAULT pg_catalog.gen_random_uuid()::text,
    CHECK ((state = 1) = (lease_token IS NOT NULL)),
    CHECK ((lease_token IS NULL) = (lease_revision IS NULL) AND (lease_token IS NULL) = (lease_until IS NULL)),
    CHECK ((lease_token IS NULL) = (lease_owner IS NULL AND lease_claim IS NULL)),
    CHECK ((subtype = 'delayed') OR dated = 0)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX event_key ON redrive.events (type, reference, subtype, dated) WHERE keyed;
CREATE INDEX event_ready ON redrive.events (type, nbf, id) WHERE state = 0;
-- One run for each (type, reference): the rule of the claim, repeated.
CREATE UNIQUE INDEX event_leased ON redrive.events (type, reference) WHERE state = 1 AND keyed;
CREATE INDEX event_unkeyed ON redrive.events (type, reference) WHERE NOT keyed;
CREATE INDEX event_claim ON redrive.events (lease_claim) WHERE lease_claim IS NOT NULL;
CREATE INDEX event_until ON redrive.events (lease_until) WHERE state = 1;
CREATE INDEX event_dead ON redrive.events (id) WHERE state = 2 OR origin IS NOT NULL;
CREATE INDEX event_expiring ON redrive.events (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX event_list ON redrive.events (type, id);

CREATE TABLE redrive.event_history (
    position   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         bigint NOT NULL,
    type       text COLLATE "C" NOT NULL,
    reference  text COLLATE "C" NOT NULL,
    revision   bigint NOT NULL,
    attempts   bigint NOT NULL,
    reason     text,
    created_at bigint NOT NULL,
    handled_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
CREATE INDEX ON redrive.event_history (type, position);
CREATE INDEX ON redrive.event_history (expires_at);

CREATE TABLE redrive.subscriptions (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type       text COLLATE "C" NOT NULL REFERENCES redrive.event_types (name),
    url        text COLLATE "C" NOT NULL,
    options    text NOT NULL,
    created_at bigint NOT NULL
);
CREATE UNIQUE INDEX ON redrive.subscriptions (type, (redrive.url_key(url)));

CREATE TABLE redrive.event_outbox (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    notification text NOT NULL UNIQUE,
    queue        text COLLATE "C" NOT NULL,
    message      bytea NOT NULL,
    type         text COLLATE "C" NOT NULL,
    reference    text COLLATE "C" NOT NULL,
    attempts     bigint NOT NULL DEFAULT 0,
    next_at      bigint NOT NULL DEFAULT 0,
    error        text,
    created_at   bigint NOT NULL
);
CREATE INDEX ON redrive.event_outbox (queue, id);

CREATE TABLE redrive.named_leases (
    name  text COLLATE "C" PRIMARY KEY,
    owner bigint,
    epoch bigint NOT NULL
);

-- What a policy applies to a waiting head by, and what the head and its receiver asked for: a changed policy is
-- applied to what waits already.

-- Messages that were saved from queues that expire, and what was last seen of such queues.

CREATE TABLE redrive.saves (
    id        text COLLATE "C" PRIMARY KEY,
    queue     text COLLATE "C" NOT NULL,
    arguments text NOT NULL,
    cause     text NOT NULL CHECK (cause IN ('save', 'purge', 'expiry')),
    state     text NOT NULL CHECK (state IN ('taking', 'kept', 'restored')),
    owner     bigint REFERENCES redrive.incarnations (id) ON DELETE SET NULL,
    actor     text NOT NULL,
    reason    text,
    messages  bigint NOT NULL DEFAULT 0 CHECK (messages >= 0),
    bytes     bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    at        bigint NOT NULL,
    until     bigint NOT NULL,
    removing  boolean NOT NULL DEFAULT false
);
-- One takes the messages of a queue at a time.
CREATE UNIQUE INDEX ON redrive.saves (queue) WHERE state = 'taking';
CREATE INDEX ON redrive.saves (queue, id);
CREATE INDEX ON redrive.saves (until);
CREATE INDEX ON redrive.saves (owner) WHERE owner IS NOT NULL;

-- `win` says which messages were settled at once.
CREATE TABLE redrive.saved_messages (
    save        text COLLATE "C" NOT NULL REFERENCES redrive.saves (id) ON DELETE CASCADE,
    place       bigint NOT NULL CHECK (place >= 0),
    win         bigint NOT NULL CHECK (win >= 0),
    message     bytea NOT NULL,
    bytes       bigint NOT NULL CHECK (bytes >= 0),
    exchange    text NOT NULL,
    routing_key text NOT NULL,
    PRIMARY KEY (save, place)
);

CREATE TABLE redrive.lifetimes (
    name         text COLLATE "C" PRIMARY KEY,
    quorum       boolean NOT NULL,
    lifetime_ms  bigint,
    argument_ms  bigint,
    by_operator  boolean NOT NULL,
    consumers    bigint,
    messages     bigint,
    bytes        bigint,
    unused_since bigint,
    expires_at   bigint,
    seen_at      bigint NOT NULL,
    sweep        bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE redrive.janitor (
    only_row      integer PRIMARY KEY CHECK (only_row = 1),
    owner         bigint REFERENCES redrive.incarnations (id) ON DELETE SET NULL,
    sweep         bigint NOT NULL DEFAULT 0,
    swept_at      bigint,
    queues        bigint NOT NULL DEFAULT 0,
    soon          bigint NOT NULL DEFAULT 0,
    soon_messages bigint NOT NULL DEFAULT 0
);
INSERT INTO redrive.janitor (only_row) VALUES (1);

-- Finding events by what went wrong. A text is found by its parts of three bytes; nothing but the server itself is
-- needed. Events that never failed are in none of these indexes, and one that is in hand is not in the one of parts.

CREATE FUNCTION redrive.text_parts(value text) RETURNS bytea[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT pg_catalog.array_agg(DISTINCT pg_catalog.substr(bytes, at, 3))
    FROM (SELECT pg_catalog.convert_to(pg_catalog.lower(value), 'UTF8') AS bytes) AS lowered,
        pg_catalog.generate_series(1, pg_catalog.octet_length(bytes) - 2) AS at
$$;
CREATE INDEX event_error_parts ON redrive.events USING gin (redrive.text_parts(reason))
    WHERE pg_catalog."left"(reason, 7) = 'retry: ' AND state <> 1;
CREATE INDEX event_errors ON redrive.events (id) WHERE pg_catalog."left"(reason, 7) = 'retry: ';
CREATE INDEX event_attempts ON redrive.events (id) WHERE attempts > 0;
-- The letters of ASCII in lower case, whatever else the bytes are.
CREATE FUNCTION redrive.lowered(value bytea) RETURNS bytea
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT pg_catalog.decode(pg_catalog.lower(pg_catalog.encode(value, 'escape')), 'escape')
$$;

-- Whoever watches asks every second for the runs that are not over; those that are stay for weeks.

CREATE INDEX runs_not_over ON redrive.runs (id) WHERE state IN ('running', 'canary', 'paused');

-- Queues that are unbound while they are purged: what a dead one left unbound is bound again.

CREATE TABLE redrive.unbindings (
    queue text   NOT NULL PRIMARY KEY,
    owner bigint REFERENCES redrive.incarnations (id) ON DELETE SET NULL
);
CREATE INDEX unbindings_by_owner ON redrive.unbindings (owner) WHERE owner IS NOT NULL;

-- Who is dead, and whose wish counts. A wish for a queue belongs to an incarnation and counts while that lives.

CREATE INDEX incarnations_alive ON redrive.incarnations (id) WHERE alive;

CREATE INDEX delivery_queues_by_wanted_by_incarnation ON redrive.delivery_queues (wanted_by_incarnation)
    WHERE wanted_by_incarnation IS NOT NULL;

-- Dead letters that no queue of the broker takes, whole.
CREATE TABLE redrive.stored_letters (
    place   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    letter  text COLLATE "C" NOT NULL UNIQUE,
    message bytea  NOT NULL,
    bytes   bigint NOT NULL CHECK (bytes >= 0),
    at      bigint NOT NULL,
    body    bytea  NOT NULL
);

-- A head and a decision are about one message, not about every message with its id. Rows without a fingerprint were
-- written before: they are matched by the id alone.

-- What is known of the broker and has to be asked for nowhere else: its policies, and what looks cost.

CREATE TABLE redrive.broker_policies (
    only_row bigint NOT NULL PRIMARY KEY CHECK (only_row = 1),
    document text   NOT NULL,
    taken_at bigint NOT NULL
);

-- Queues whose messages outlive a limited number of returns: how many those had that were looked at.
CREATE TABLE redrive.looks (
    queue text   NOT NULL PRIMARY KEY,
    seen  text   NOT NULL,
    at    bigint NOT NULL
);
CREATE INDEX looks_by_age ON redrive.looks (at);

-- What this store is told by from every other one: a UUID, made by the program with the first opening.

-- What grows is trimmed in pages.

-- The ends of the chain that the audit is: what retention removed (`removed` lines, the last of them with this id
-- and hash, at that time), and the newest line. Nothing but what is removed already can be deleted.
CREATE TABLE redrive.audit_chain (
    only_row     bigint PRIMARY KEY CHECK (only_row = 1),
    removed      bigint NOT NULL CHECK (removed >= 0),
    removed_id   bigint NOT NULL,
    removed_hash text NOT NULL,
    removed_at   bigint,
    newest_id    bigint NOT NULL,
    newest_hash  text NOT NULL
);
INSERT INTO redrive.audit_chain VALUES (1, 0, 0, '', NULL, 0, '');
CREATE FUNCTION redrive.audit_moves_its_end() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN UPDATE redrive.audit_chain SET newest_id = NEW.id, newest_hash = NEW.hash; RETURN NULL; END $$;
CREATE TRIGGER audit_moves_its_end AFTER INSERT ON redrive.audit
    FOR EACH ROW EXECUTE FUNCTION redrive.audit_moves_its_end();
CREATE FUNCTION redrive.audit_keeps_its_lines() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN
        IF OLD.id > COALESCE((SELECT removed_id FROM redrive.audit_chain), 0) THEN
            RAISE EXCEPTION 'the audit is append-only';
        END IF;
        RETURN OLD;
    END $$;
CREATE TRIGGER audit_keeps_its_lines BEFORE DELETE ON redrive.audit
    FOR EACH ROW EXECUTE FUNCTION redrive.audit_keeps_its_lines();

-- The epoch that an endpoint begins with: above that of each that was forgotten, so that no number of an endpoint that
-- comes back goes back.
CREATE TABLE redrive.forgotten_endpoints (
    only_row bigint PRIMARY KEY CHECK (only_row = 1),
    epoch    bigint NOT NULL CHECK (epoch >= 0)
);
INSERT INTO redrive.forgotten_endpoints VALUES (1, 0);

-- What is removed page by page counts as gone from its first page on.
CREATE INDEX runs_by_ended_at ON redrive.runs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_ended ON redrive.runs (id) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_planned ON redrive.runs (created_at) WHERE state = 'planned';
CREATE INDEX runs_removing ON redrive.runs (id) WHERE removing;
CREATE INDEX saves_removing ON redrive.saves (id) WHERE removing;
CREATE INDEX policies_by_url ON redrive.policies (url_key);
CREATE INDEX policies_by_at ON redrive.policies (at);
CREATE INDEX rescued_by_at ON redrive.rescued (at);

-- When a type was pushed to, claimed from or set last, about: one that nobody uses can go.
CREATE INDEX event_types_by_used_at ON redrive.event_types (used_at);

-- What the ids of an event's notifications are made from: random, made anew by each push, and shown to nobody.

DELETE FROM redrive.settings;
INSERT INTO redrive.settings (only_row, minimum_version, fingerprint, identity) VALUES (1, 0, NULL, '01a20d77-96f3-7231-b32a-6225755e9e65');
DELETE FROM redrive.numbers;
INSERT INTO redrive.numbers (name, value) VALUES ('epoch', 1795522273804);
INSERT INTO redrive.numbers (name, value) VALUES ('generation', 1795522274105);
INSERT INTO redrive.incarnations (id, name, host, pid, version, fingerprint, take_over, counter, alive, started_at, beat_at, ended_at, machine, process_started, deadline) OVERRIDING SYSTEM VALUE VALUES (1, 'redrive-3258-76ad8141', 'vm', 3258, 1000, NULL, 60000000, 4, false, 1795522270971474, 1795522274022673, 1795522274576529, '08b94dce-2318-4fc3-9df6-e63b065a7df5 pid:[4026531836]', 1, 15000000);
INSERT INTO redrive.delivery_queues (name, execution, url, epoch, owner, paused_by, paused_reason, paused_at, wanted_by, closing, refused, refusing, quarantined, has_companion, head_message, head_failures, head_first_failed_at, head_last_failed_at, head_last_status, head_last_error, head_next_attempt_at, head_parked, head_phase, head_attempts_allowed, decision_id, decision_message, decision_reason, decision_epoch, refusals_in_row, delivered, last_delivered_at, active_at, created_at, head_event_type, head_polling_time, head_restart_count, head_asked_until, wanted_by_incarnation, head_fingerprint, decision_fingerprint) VALUES ('redrive.run.bcd392f3be3c4505db11d8982e87fe0e', 'run', 'http://127.0.0.1:9/hook', 1795522273804, NULL, NULL, NULL, NULL, NULL, 'open', NULL, NULL, NULL, false, '01a20d77-a200-75f5-a98b-fa64fc74775d', 4, 1795522273815771, 1795522273822868, NULL, 'client error (Connect): tcp connect error: Connection refused (os error 111)', NULL, false, 'pre_backoff', 16, NULL, NULL, NULL, NULL, 0, 0, NULL, 1795522273822868, 1795522273805337, NULL, NULL, NULL, NULL, NULL, '\x4e8ff582388ee419a8ef1aacd8d912a0', NULL);
INSERT INTO redrive.endpoints (url, state, epoch, since, attempts, next_attempt_at, last_status, last_error, last_success_at, probe_queue, probe_message, probe_token, probe_until) VALUES ('http://127.0.0.1:9/hook', 'disabled', 1795522273951, 1795522273951220, 4, NULL, NULL, 'disabled by cli:root@vm', NULL, 'redrive.run.bcd392f3be3c4505db11d8982e87fe0e', '01a20d77-a200-75f5-a98b-fa64fc74775d', NULL, NULL);
INSERT INTO redrive.attempts (id, message_id, queue, url, number, epoch, started_at, duration_ms, class, status, error, response, counted) OVERRIDING SYSTEM VALUE VALUES (1, '01a20d77-a200-75f5-a98b-fa64fc74775d', 'redrive.run.bcd392f3be3c4505db11d8982e87fe0e', 'http://127.0.0.1:9/hook', 1, 1795522273804, 1795522273814506, 0, 'failed', NULL, 'client error (Connect): tcp connect error: Connection refused (os error 111)', NULL, true);
INSERT INTO redrive.attempts (id, message_id, queue, url, number, epoch, started_at, duration_ms, class, status, error, response, counted) OVERRIDING SYSTEM VALUE VALUES (2, '01a20d77-a200-75f5-a98b-fa64fc74775d', 'redrive.run.bcd392f3be3c4505db11d8982e87fe0e', 'http://127.0.0.1:9/hook', 2, 1795522273804, 1795522273818163, 0, 'failed', NULL, 'client error (Connect): tcp connect error: Connection refused (os error 111)', NULL, true);
INSERT INTO redrive.attempts (id, message_id, queue, url, number, epoch, started_at, duration_ms, class, status, error, response, counted) OVERRIDING SYSTEM VALUE VALUES (3, '01a20d77-a200-75f5-a98b-fa64fc74775d', 'redrive.run.bcd392f3be3c4505db11d8982e87fe0e', 'http://127.0.0.1:9/hook', 3, 1795522273804, 1795522273820229, 0, 'failed', NULL, 'client error (Connect): tcp connect error: Connection refused (os error 111)', NULL, true);
INSERT INTO redrive.attempts (id, message_id, queue, url, number, epoch, started_at, duration_ms, class, status, error, response, counted) OVERRIDING SYSTEM VALUE VALUES (4, '01a20d77-a200-75f5-a98b-fa64fc74775d', 'redrive.run.bcd392f3be3c4505db11d8982e87fe0e', 'http://127.0.0.1:9/hook', 4, 1795522273804, 1795522273822285, 0, 'failed', NULL, 'client error (Connect): tcp connect error: Connection refused (os error 111)', NULL, true);
INSERT INTO redrive.audit (id, at, actor, command, target, reason, plan, result, detail, hash) OVERRIDING SYSTEM VALUE VALUES (1, 1795522273949044, 'cli:root@vm', 'endpoint disable', 'http://127.0.0.1:9/hook', 'dünn', 'be96d6b01e944354f8bec9f3d80f47fa30a72137ae4f53308f137c4b9f2a40ca', 'planned', 'disable http://127.0.0.1:9/hook', '3436b373a4739377ebc8347d129a4e18bc3ce0cdb86ddfa935eb457578c6d04c');
INSERT INTO redrive.audit (id, at, actor, command, target, reason, plan, result, detail, hash) OVERRIDING SYSTEM VALUE VALUES (2, 1795522273973346, 'cli:root@vm', 'endpoint disable', 'http://127.0.0.1:9/hook', 'dünn', 'be96d6b01e944354f8bec9f3d80f47fa30a72137ae4f53308f137c4b9f2a40ca', 'done', 'disable http://127.0.0.1:9/hook', 'd44ffee983560dee911083964782e18e18b0c5b4ec8a046547a040cbb62ac7cc');
INSERT INTO redrive.audit (id, at, actor, command, target, reason, plan, result, detail, hash) OVERRIDING SYSTEM VALUE VALUES (3, 1795522274100285, 'cli:root@vm', 'policy set', 'event type "t"', NULL, '0b4ae43827e8c262d146cb16b273fad28813e7bf9ee9fb790aa4519eee4f40e2', 'planned', 'set the retry policy of event type "t"', 'd8e345132fea884924fb9bcd7ff2e61a83325c110387f2e6533cea238423e0a9');
INSERT INTO redrive.audit (id, at, actor, command, target, reason, plan, result, detail, hash) OVERRIDING SYSTEM VALUE VALUES (4, 1795522274108027, 'cli:root@vm', 'policy set', 'event type "t"', NULL, '0b4ae43827e8c262d146cb16b273fad28813e7bf9ee9fb790aa4519eee4f40e2', 'done', 'set the retry policy of event type "t"', '808f908a240c316cbdc1e9dadcf8e3a0e5f18f356a35c731042ad4d7a4e10410');
INSERT INTO redrive.audit (id, at, actor, command, target, reason, plan, result, detail, hash) OVERRIDING SYSTEM VALUE VALUES (5, 1795522274425942, 'cli:root@vm', 'subscription add', 'http://127.0.0.1:9/hook', NULL, '9886786967d3142ba20afeb4310230b1d1fe7356922b8094ff43bd39c9066e89', 'planned', 'subscribe http://127.0.0.1:9/hook to "t"', '55bcf5c826001cef4e0dc81c8da37d172c4f6cb8e9b097fd5fefe8a550fbfc75');
INSERT INTO redrive.audit (id, at, actor, command, target, reason, plan, result, detail, hash) OVERRIDING SYSTEM VALUE VALUES (6, 1795522274450467, 'cli:root@vm', 'subscription add', 'http://127.0.0.1:9/hook', NULL, '9886786967d3142ba20afeb4310230b1d1fe7356922b8094ff43bd39c9066e89', 'done', 'subscribe http://127.0.0.1:9/hook to "t"', 'a8347109dce0c58ea02f0f5b62813547dcbb7bfc27c7b5883998663cc4e031c5');
INSERT INTO redrive.policies (event_type, url, version, document, author, at) VALUES ('t', '', 1, '{}', 'cli:root@vm', 1795522274103054);
INSERT INTO redrive.event_types (name, document, max_claim_count, dead_letter_type, dead_letter_ttl, coalesce_window, coalesce_max, cutoff, backoff_base, backoff_cap, history_ttl, is_target, created_at, updated_at, used_at) VALUES ('t', '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, 1795522274180247, 1795522274180247, 1795522274314480);
INSERT INTO redrive.events (id, type, subtype, reference, dated, keyed, state, nbf, created_at, first_at, attempts, revision, merged, reason, payload, properties, expires_at, claim_count, claim_history, origin, first_failed_at, last_failed_at, lease_token, lease_revision, lease_owner, lease_claim, lease_until, uid) OVERRIDING SYSTEM VALUE VALUES (1, 't', '', 'a', 0, true, 0, 1795522274180247, 1795522274180247, 1795522274180247, 0, 1, 0, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '8806701515f556b49c8079cafc2e6915');
INSERT INTO redrive.events (id, type, subtype, reference, dated, keyed, state, nbf, created_at, first_at, attempts, revision, merged, reason, payload, properties, expires_at, claim_count, claim_history, origin, first_failed_at, last_failed_at, lease_token, lease_revision, lease_owner, lease_claim, lease_until, uid) OVERRIDING SYSTEM VALUE VALUES (2, 't', 'delayed', 'b', 4070908800000000, true, 0, 4070908800000000, 1795522274314480, 1795522274314480, 0, 1, 0, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '09c3d97f66428c1183e0551bbf8167f3');
INSERT INTO redrive.subscriptions (id, type, url, options, created_at) OVERRIDING SYSTEM VALUE VALUES (1, 't', 'http://127.0.0.1:9/hook', '{}', 1795522274449029);
INSERT INTO redrive.named_leases (name, owner, epoch) VALUES ('outbox', NULL, 1795522270977);
DELETE FROM redrive.janitor;
INSERT INTO redrive.janitor (only_row, owner, sweep, swept_at, queues, soon, soon_messages) VALUES (1, 1, 1, 1795522270984579, 0, 0, 0);
DELETE FROM redrive.audit_chain;
INSERT INTO redrive.audit_chain (only_row, removed, removed_id, removed_hash, removed_at, newest_id, newest_hash) VALUES (1, 0, 0, '', NULL, 6, 'a8347109dce0c58ea02f0f5b62813547dcbb7bfc27c7b5883998663cc4e031c5');
DELETE FROM redrive.forgotten_endpoints;
INSERT INTO redrive.forgotten_endpoints (only_row, epoch) VALUES (1, 0);
SELECT setval(pg_get_serial_sequence('redrive.incarnations', 'id'), 1), setval(pg_get_serial_sequence('redrive.attempts', 'id'), 4),
    setval(pg_get_serial_sequence('redrive.audit', 'id'), 6), setval(pg_get_serial_sequence('redrive.events', 'id'), 2),
    setval(pg_get_serial_sequence('redrive.subscriptions', 'id'), 1);
