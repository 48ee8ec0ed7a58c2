-- The life of one document is looked up without reading that of all others.
CREATE INDEX events_of_document ON events (document) WHERE document IS NOT NULL;
