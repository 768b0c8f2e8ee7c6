-- Dead letters that no queue of the broker takes, whole. The body stands last: what is read without it does not pass it.
CREATE TABLE stored_letters (
    place   INTEGER PRIMARY KEY AUTOINCREMENT,
    letter  TEXT    NOT NULL UNIQUE,
    message BLOB    NOT NULL,
    bytes   INTEGER NOT NULL CHECK (bytes >= 0),
    at      INTEGER NOT NULL,
    body    BLOB    NOT NULL
) STRICT;

-- The index of dead letters has a third home. A check cannot be changed: the table is made again.
CREATE TABLE dead_letters_new (
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
INSERT INTO dead_letters_new SELECT * FROM dead_letters;
DROP TABLE dead_letters;
ALTER TABLE dead_letters_new RENAME TO dead_letters;
CREATE INDEX dead_letters_by_queue ON dead_letters (queue, generation);
CREATE INDEX dead_letters_by_last_failed_at ON dead_letters (COALESCE(last_failed_at, 0) DESC, id);
CREATE INDEX dead_letters_by_fingerprint ON dead_letters (fingerprint, COALESCE(last_failed_at, 0) DESC, id);
