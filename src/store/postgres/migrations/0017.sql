-- What is known of the broker and has to be asked for nowhere else: its policies, and what looks cost.

CREATE TABLE redrive.broker_policies (
    only_row bigint NOT NULL PRIMARY KEY CHECK (only_row = 1),
    document text   NOT NULL,
    taken_at bigint NOT NULL
);

-- Queues whose messages outlive a limited number of returns: how many those had that were looked at.
CREATE TABLE redrive.looks (
    queue text   NOT NULL PRIMARY KEY,
    seen  text   NOT NULL,
    at    bigint NOT NULL
);
CREATE INDEX looks_by_age ON redrive.looks (at);
