-- Queues that are unbound while they are purged: what a dead one left unbound is bound again.

CREATE TABLE redrive.unbindings (
    queue text   NOT NULL PRIMARY KEY,
    owner bigint REFERENCES redrive.incarnations (id) ON DELETE SET NULL
);
CREATE INDEX unbindings_by_owner ON redrive.unbindings (owner) WHERE owner IS NOT NULL;
