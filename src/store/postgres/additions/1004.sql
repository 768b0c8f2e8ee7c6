-- Subscriptions that were removed: what still waits of them is signed with their secret.

CREATE TABLE redrive.ended_subscriptions (
    id         bigint PRIMARY KEY,
    type       text COLLATE "C" NOT NULL,
    url        text COLLATE "C" NOT NULL,
    options    text NOT NULL,
    created_at bigint NOT NULL,
    ended_at   bigint NOT NULL
);
CREATE INDEX ended_subscriptions_by_type ON redrive.ended_subscriptions (type, id);
CREATE INDEX ended_subscriptions_by_ended_at ON redrive.ended_subscriptions (ended_at);
