-- How fast an endpoint goes that is available again: a document, as the program writes it.

ALTER TABLE endpoints ADD COLUMN pace TEXT;
CREATE INDEX endpoints_paced ON endpoints (url) WHERE pace IS NOT NULL;
