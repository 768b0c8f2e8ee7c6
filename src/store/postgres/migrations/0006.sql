-- What a policy applies to a waiting head by, and what the head and its receiver asked for: a changed policy is
-- applied to what waits already.
ALTER TABLE redrive.delivery_queues
    ADD COLUMN head_event_type    text,
    ADD COLUMN head_polling_time  bigint CHECK (head_polling_time >= 0),
    ADD COLUMN head_restart_count bigint CHECK (head_restart_count >= 0),
    ADD COLUMN head_asked_until   bigint;
