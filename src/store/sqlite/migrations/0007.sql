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
    until     INTEGER NOT NULL
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
