-- What the ids of an event's notifications are made from: random, made anew by each push, and shown to nobody.

ALTER TABLE events ADD COLUMN uid TEXT NOT NULL DEFAULT '';
UPDATE events SET uid = lower(hex(randomblob(16)));
