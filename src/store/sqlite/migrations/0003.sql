-- Runs with their leases and journals, and messages that are kept for a while. The table of the first schema was
-- never written to.

DROP TABLE runs;
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
