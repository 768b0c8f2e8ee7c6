-- Queues of which a message was refused, and when last: a dead letter by then, it counts until its URL answers with a 2xx.

CREATE TABLE refused_queues (
    queue      TEXT PRIMARY KEY,
    url        TEXT NOT NULL,
    refused_at INTEGER NOT NULL
) STRICT;
CREATE INDEX refused_queues_by_url ON refused_queues (url, refused_at);
