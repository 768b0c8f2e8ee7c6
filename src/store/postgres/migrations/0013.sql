-- Who is dead, and whose wish counts. A wish for a queue belongs to an incarnation and counts while that lives; the
-- text of before stays for programs of before that are at work still, and means nothing any more. What tells a process
-- from others of its machine, and how long an attempt of it may take, are unknown of those that began before.

ALTER TABLE redrive.incarnations ADD COLUMN machine text;
ALTER TABLE redrive.incarnations ADD COLUMN process_started bigint;
ALTER TABLE redrive.incarnations ADD COLUMN deadline bigint CHECK (deadline > 0);
CREATE INDEX incarnations_alive ON redrive.incarnations (id) WHERE alive;

ALTER TABLE redrive.delivery_queues ADD COLUMN wanted_by_incarnation bigint;
CREATE INDEX delivery_queues_by_wanted_by_incarnation ON redrive.delivery_queues (wanted_by_incarnation)
    WHERE wanted_by_incarnation IS NOT NULL;
UPDATE redrive.delivery_queues SET wanted_by = NULL WHERE wanted_by IS NOT NULL;
