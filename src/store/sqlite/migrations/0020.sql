-- What grows is trimmed in pages.

-- The ends of the chain that the audit is: what retention removed (`removed` lines, the last of them with this id
-- and hash, at that time), and the newest line. Nothing but what is removed already can be deleted.
CREATE TABLE audit_chain (
    only_row     INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    removed      INTEGER NOT NULL CHECK (removed >= 0),
    removed_id   INTEGER NOT NULL,
    removed_hash TEXT NOT NULL,
    removed_at   INTEGER,
    newest_id    INTEGER NOT NULL,
    newest_hash  TEXT NOT NULL
) STRICT;
INSERT INTO audit_chain VALUES (1, 0, 0, '', NULL, COALESCE((SELECT max(id) FROM audit), 0),
    COALESCE((SELECT hash FROM audit ORDER BY id DESC LIMIT 1), ''));
CREATE TRIGGER audit_moves_its_end AFTER INSERT ON audit
    BEGIN UPDATE audit_chain SET newest_id = NEW.id, newest_hash = NEW.hash; END;
DROP TRIGGER audit_refuses_delete;
CREATE TRIGGER audit_refuses_delete BEFORE DELETE ON audit
    WHEN OLD.id > COALESCE((SELECT removed_id FROM audit_chain), 0)
    BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

-- The epoch that an endpoint begins with: above that of each that was forgotten, so that no number of an endpoint that
-- comes back goes back.
CREATE TABLE forgotten_endpoints (
    only_row INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    epoch    INTEGER NOT NULL CHECK (epoch >= 0)
) STRICT;
INSERT INTO forgotten_endpoints VALUES (1, 0);

-- What is removed page by page counts as gone from its first page on.
ALTER TABLE runs ADD COLUMN removing INTEGER NOT NULL DEFAULT 0 CHECK (removing IN (0, 1));
ALTER TABLE saves ADD COLUMN removing INTEGER NOT NULL DEFAULT 0 CHECK (removing IN (0, 1));
CREATE INDEX runs_by_ended_at ON runs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_ended ON runs (id) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_planned ON runs (created_at) WHERE state = 'planned';
CREATE INDEX runs_removing ON runs (id) WHERE removing;
CREATE INDEX saves_removing ON saves (id) WHERE removing;
CREATE INDEX policies_by_url ON policies (url);
CREATE INDEX policies_by_at ON policies (at);
CREATE INDEX rescued_by_at ON rescued (at);
