-- What a policy applies to a waiting head by, and what the head and its receiver asked for: a changed policy is
-- applied to what waits already.
ALTER TABLE delivery_queues ADD COLUMN head_event_type TEXT;
ALTER TABLE delivery_queues ADD COLUMN head_polling_time INTEGER CHECK (head_polling_time >= 0);
ALTER TABLE delivery_queues ADD COLUMN head_restart_count INTEGER CHECK (head_restart_count >= 0);
ALTER TABLE delivery_queues ADD COLUMN head_asked_until INTEGER;
