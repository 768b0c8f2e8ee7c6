-- A store belongs to a broker: the name of the one whose daemons or orders used it first. Runs and lines of the audit say
-- whose they are; those from before do not.

ALTER TABLE settings ADD COLUMN broker TEXT;
ALTER TABLE runs ADD COLUMN broker TEXT;
ALTER TABLE audit ADD COLUMN broker TEXT;
