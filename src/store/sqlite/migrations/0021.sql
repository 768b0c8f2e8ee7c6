-- When a type was pushed to, claimed from or set last, about: one that nobody uses can go.
ALTER TABLE event_types ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0;
UPDATE event_types SET used_at = unixepoch() * 1000000;
CREATE INDEX event_types_by_used_at ON event_types (used_at);
