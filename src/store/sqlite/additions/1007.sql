-- How many messages that a run discarded were put back since.

ALTER TABLE runs ADD COLUMN restored INTEGER NOT NULL DEFAULT 0 CHECK (restored >= 0);
