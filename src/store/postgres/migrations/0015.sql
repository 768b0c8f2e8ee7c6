-- Dead letters that no queue of the broker takes, whole.
CREATE TABLE redrive.stored_letters (
    place   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    letter  text COLLATE "C" NOT NULL UNIQUE,
    message bytea  NOT NULL,
    bytes   bigint NOT NULL CHECK (bytes >= 0),
    at      bigint NOT NULL,
    body    bytea  NOT NULL
);

-- The index of dead letters has a third home.
ALTER TABLE redrive.dead_letters DROP CONSTRAINT dead_letters_home_check;
ALTER TABLE redrive.dead_letters ADD CONSTRAINT dead_letters_home_check CHECK (home IN ('broker', 'event', 'store'));
