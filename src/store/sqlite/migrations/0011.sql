-- Queues that are unbound while they are purged: what a dead one left unbound is bound again.

CREATE TABLE unbindings (
    queue TEXT    NOT NULL PRIMARY KEY,
    owner INTEGER REFERENCES incarnations (id) ON DELETE SET NULL
) STRICT;
CREATE INDEX unbindings_by_owner ON unbindings (owner) WHERE owner IS NOT NULL;
