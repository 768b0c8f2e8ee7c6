-- The first schema. Times are microseconds since the Unix epoch by this database's clock. Text that is
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
    fingerprint     text
);
INSERT INTO redrive.settings VALUES (1, 0, NULL);

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
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON redrive.audit
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

CREATE TABLE redrive.runs (
    id         text PRIMARY KEY,
    command    text NOT NULL,
    state      text NOT NULL
               CHECK (state IN ('planned', 'running', 'canary', 'paused', 'done', 'failed', 'cancelled')),
    done       bigint NOT NULL CHECK (done >= 0),
    failed     bigint NOT NULL CHECK (failed >= 0),
    skipped    bigint NOT NULL CHECK (skipped >= 0),
    total      bigint NOT NULL CHECK (total >= 0),
    rate       bigint CHECK (rate >= 0),
    actor      text NOT NULL,
    reason     text,
    plan       text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE INDEX ON redrive.runs (created_at);

CREATE TABLE redrive.rescued (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue        text NOT NULL,
    header_frame bytea NOT NULL,
    body         bytea NOT NULL,
    reason       text NOT NULL,
    at           bigint NOT NULL
);
CREATE INDEX ON redrive.rescued (queue, id);
