-- A head and a decision are about one message, not about every message with its id. Rows without a fingerprint were
-- written before: they are matched by the id alone.

ALTER TABLE delivery_queues ADD COLUMN head_fingerprint BLOB;
ALTER TABLE delivery_queues ADD COLUMN decision_fingerprint BLOB;
