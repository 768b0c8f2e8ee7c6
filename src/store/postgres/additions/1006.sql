-- When the ages of rows counted last, and since when the store's clock is ahead of that by more than it can be.

ALTER TABLE redrive.janitor ADD COLUMN aged_at BIGINT;
ALTER TABLE redrive.janitor ADD COLUMN leapt_at BIGINT;
