-- The place of a kept message in the run that kept it: those of one moment are put back in this order.

ALTER TABLE kept_messages ADD COLUMN ordinal INTEGER NOT NULL DEFAULT 0;
CREATE INDEX kept_messages_in_order ON kept_messages (kind, at, ordinal, letter);
