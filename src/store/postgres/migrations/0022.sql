-- What the ids of an event's notifications are made from: random, made anew by each push, and shown to nobody.

ALTER TABLE redrive.events ADD COLUMN uid text NOT NULL DEFAULT pg_catalog.gen_random_uuid()::text;
