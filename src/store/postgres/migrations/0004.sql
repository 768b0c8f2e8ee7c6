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
