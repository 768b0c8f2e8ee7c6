-- A store belongs to a broker: the name of the one whose daemons or orders used it first. Runs and lines of the audit say
-- whose they are; those from before do not.

ALTER TABLE redrive.settings ADD COLUMN broker text;
ALTER TABLE redrive.runs ADD COLUMN broker text;
ALTER TABLE redrive.audit ADD COLUMN broker text;
