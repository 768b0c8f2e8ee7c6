-- What grows is trimmed in pages.

-- The ends of the chain that the audit is: what retention removed (`removed` lines, the last of them with this id
-- and hash, at that time), and the newest line. Nothing but what is removed already can be deleted.
CREATE TABLE redrive.audit_chain (
    only_row     bigint PRIMARY KEY CHECK (only_row = 1),
    removed      bigint NOT NULL CHECK (removed >= 0),
    removed_id   bigint NOT NULL,
    removed_hash text NOT NULL,
    removed_at   bigint,
    newest_id    bigint NOT NULL,
    newest_hash  text NOT NULL
);
INSERT INTO redrive.audit_chain VALUES (1, 0, 0, '', NULL, COALESCE((SELECT max(id) FROM redrive.audit), 0),
    COALESCE((SELECT hash FROM redrive.audit ORDER BY id DESC LIMIT 1), ''));
CREATE FUNCTION redrive.audit_moves_its_end() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN UPDATE redrive.audit_chain SET newest_id = NEW.id, newest_hash = NEW.hash; RETURN NULL; END $$;
CREATE TRIGGER audit_moves_its_end AFTER INSERT ON redrive.audit
    FOR EACH ROW EXECUTE FUNCTION redrive.audit_moves_its_end();
DROP TRIGGER audit_is_append_only ON redrive.audit;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR TRUNCATE ON redrive.audit
    FOR EACH STATEMENT EXECUTE FUNCTION redrive.audit_is_append_only();
CREATE FUNCTION redrive.audit_keeps_its_lines() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN
        IF OLD.id > COALESCE((SELECT removed_id FROM redrive.audit_chain), 0) THEN
            RAISE EXCEPTION 'the audit is append-only';
        END IF;
        RETURN OLD;
    END $$;
CREATE TRIGGER audit_keeps_its_lines BEFORE DELETE ON redrive.audit
    FOR EACH ROW EXECUTE FUNCTION redrive.audit_keeps_its_lines();

-- The epoch that an endpoint begins with: above that of each that was forgotten, so that no number of an endpoint that
-- comes back goes back.
CREATE TABLE redrive.forgotten_endpoints (
    only_row bigint PRIMARY KEY CHECK (only_row = 1),
    epoch    bigint NOT NULL CHECK (epoch >= 0)
);
INSERT INTO redrive.forgotten_endpoints VALUES (1, 0);

-- What is removed page by page counts as gone from its first page on.
ALTER TABLE redrive.runs ADD COLUMN removing boolean NOT NULL DEFAULT false;
ALTER TABLE redrive.saves ADD COLUMN removing boolean NOT NULL DEFAULT false;
CREATE INDEX runs_by_ended_at ON redrive.runs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_ended ON redrive.runs (id) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_planned ON redrive.runs (created_at) WHERE state = 'planned';
CREATE INDEX runs_removing ON redrive.runs (id) WHERE removing;
CREATE INDEX saves_removing ON redrive.saves (id) WHERE removing;
CREATE INDEX policies_by_url ON redrive.policies (url_key);
CREATE INDEX policies_by_at ON redrive.policies (at);
CREATE INDEX rescued_by_at ON redrive.rescued (at);
