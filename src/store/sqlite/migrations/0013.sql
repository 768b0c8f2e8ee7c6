-- Who is dead, and whose wish counts. A wish for a queue belongs to an incarnation and counts while that lives; the
-- text of before stays for programs of before that are at work still, and means nothing any more. What tells a process
-- from others of its machine, and how long an attempt of it may take, are unknown of those that began before.

ALTER TABLE incarnations ADD COLUMN machine TEXT;
ALTER TABLE incarnations ADD COLUMN process_started INTEGER;
ALTER TABLE incarnations ADD COLUMN deadline INTEGER CHECK (deadline > 0);
CREATE INDEX incarnations_alive ON incarnations (id) WHERE alive;

ALTER TABLE delivery_queues ADD COLUMN wanted_by_incarnation INTEGER;
CREATE INDEX delivery_queues_by_wanted_by_incarnation ON delivery_queues (wanted_by_incarnation)
    WHERE wanted_by_incarnation IS NOT NULL;
UPDATE delivery_queues SET wanted_by = NULL WHERE wanted_by IS NOT NULL;
