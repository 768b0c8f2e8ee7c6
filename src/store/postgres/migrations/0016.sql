-- A head and a decision are about one message, not about every message with its id. Rows without a fingerprint were
-- written before: they are matched by the id alone.

ALTER TABLE redrive.delivery_queues ADD COLUMN head_fingerprint bytea;
ALTER TABLE redrive.delivery_queues ADD COLUMN decision_fingerprint bytea;
