-- Runs with their leases and journals, and messages that are kept for a while. The table of the first schema was
-- never written to.

DROP TABLE redrive.runs;
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
