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
    home            text NOT NULL CHECK (home IN ('broker', 'event')),
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
