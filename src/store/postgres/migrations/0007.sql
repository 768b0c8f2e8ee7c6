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
    until     bigint NOT NULL
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
