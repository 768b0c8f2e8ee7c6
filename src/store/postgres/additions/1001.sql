-- How fast an endpoint goes that is available again: a document, as the program writes it.

ALTER TABLE redrive.endpoints ADD COLUMN pace text;
CREATE INDEX endpoints_paced ON redrive.endpoints (url) WHERE pace IS NOT NULL;
