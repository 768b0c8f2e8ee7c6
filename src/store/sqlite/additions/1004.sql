-- Subscriptions that were removed: what still waits of them is signed with their secret.

CREATE TABLE ended_subscriptions (
    id         INTEGER PRIMARY KEY,
    type       TEXT NOT NULL,
    url        TEXT NOT NULL,
    options    TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX ended_subscriptions_by_type ON ended_subscriptions (type, id);
CREATE INDEX ended_subscriptions_by_ended_at ON ended_subscriptions (ended_at);
