-- When a type was pushed to, claimed from or set last, about: one that nobody uses can go.
ALTER TABLE redrive.event_types ADD COLUMN used_at bigint NOT NULL DEFAULT 0;
UPDATE redrive.event_types SET used_at = redrive.store_now();
CREATE INDEX event_types_by_used_at ON redrive.event_types (used_at);
