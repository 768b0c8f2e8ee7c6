-- Finding events by what went wrong: the texts of failures by their parts of three characters. Events that never
-- failed are in none of these.

CREATE VIRTUAL TABLE event_errors USING fts5 (reason, content = '', tokenize = 'trigram');
INSERT INTO event_errors (rowid, reason) SELECT id, reason FROM events WHERE substr(reason, 1, 7) = 'retry: ';
CREATE TRIGGER event_error_new AFTER INSERT ON events WHEN substr(NEW.reason, 1, 7) = 'retry: ' BEGIN
    INSERT INTO event_errors (rowid, reason) VALUES (NEW.id, NEW.reason);
END;
CREATE TRIGGER event_error_gone AFTER DELETE ON events WHEN substr(OLD.reason, 1, 7) = 'retry: ' BEGIN
    INSERT INTO event_errors (event_errors, rowid, reason) VALUES ('delete', OLD.id, OLD.reason);
END;
CREATE TRIGGER event_error_changed AFTER UPDATE OF reason ON events
    WHEN OLD.reason IS NOT NEW.reason AND (substr(OLD.reason, 1, 7) = 'retry: ' OR substr(NEW.reason, 1, 7) = 'retry: ')
BEGIN
    INSERT INTO event_errors (event_errors, rowid, reason)
        SELECT 'delete', OLD.id, OLD.reason WHERE substr(OLD.reason, 1, 7) = 'retry: ';
    INSERT INTO event_errors (rowid, reason) SELECT NEW.id, NEW.reason WHERE substr(NEW.reason, 1, 7) = 'retry: ';
END;
CREATE INDEX event_attempts ON events (id) WHERE attempts > 0;
