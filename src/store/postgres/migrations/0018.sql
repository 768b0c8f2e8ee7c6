-- What this store is told by from every other one: a UUID, made by the program with the first opening.

ALTER TABLE redrive.settings ADD COLUMN identity text CHECK (length(identity) = 36);
