-- What is known of the broker and has to be asked for nowhere else: its policies, and what looks cost.

CREATE TABLE broker_policies (
    only_row INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    document TEXT    NOT NULL,
    taken_at INTEGER NOT NULL
) STRICT;

-- Queues whose messages outlive a limited number of returns: how many those had that were looked at.
CREATE TABLE looks (
    queue TEXT    NOT NULL PRIMARY KEY,
    seen  TEXT    NOT NULL,
    at    INTEGER NOT NULL
) STRICT;
CREATE INDEX looks_by_age ON looks (at);
