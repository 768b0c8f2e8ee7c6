-- Queues of which a message was refused, and when last: a dead letter by then, it counts until its URL answers with a 2xx.

CREATE TABLE redrive.refused_queues (
    queue      text COLLATE "C" PRIMARY KEY,
    url_key    bytea GENERATED ALWAYS AS (redrive.url_key(url)) STORED,
    url        text COLLATE "C" NOT NULL,
    refused_at bigint NOT NULL
);
CREATE INDEX refused_queues_by_url ON redrive.refused_queues (url_key, refused_at);
