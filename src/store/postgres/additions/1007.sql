-- How many messages that a run discarded were put back since.

ALTER TABLE redrive.runs ADD COLUMN restored BIGINT NOT NULL DEFAULT 0 CHECK (restored >= 0);
