-- The base of the embedded broker's tables, which share their file with the store's.

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
