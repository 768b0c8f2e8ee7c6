-- What this store is told by from every other one: a UUID, made by the program with the first opening.

ALTER TABLE settings ADD COLUMN identity TEXT CHECK (length(identity) = 36);
