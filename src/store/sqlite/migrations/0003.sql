-- An event keeps the trace of whoever pushed it, for the requests that are made of it.

ALTER TABLE events ADD COLUMN trace TEXT;
