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
    home            TEXT NOT NULL CHECK (home IN ('broker', 'event')),
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
