-- The beginning of a dead letter's body in one line, without what the masks hide.

ALTER TABLE dead_letters ADD COLUMN begins TEXT;
