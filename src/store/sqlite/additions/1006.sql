-- When the ages of rows counted last, and since when the store's clock is ahead of that by more than it can be.

ALTER TABLE janitor ADD COLUMN aged_at INTEGER;
ALTER TABLE janitor ADD COLUMN leapt_at INTEGER;
