-- The place of a kept message in the run that kept it: those of one moment are put back in this order.

ALTER TABLE redrive.kept_messages ADD COLUMN ordinal BIGINT NOT NULL DEFAULT 0;
CREATE INDEX kept_messages_in_order ON redrive.kept_messages (kind, at, ordinal, letter);
