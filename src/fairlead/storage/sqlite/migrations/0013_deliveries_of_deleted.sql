-- When a document is deleted, its deliveries lose what they tell of it.
CREATE INDEX deliveries_of_document ON deliveries (document) WHERE document IS NOT NULL;
-- Of those that were deleted before, the id is left. No time has passed between event and delivery.
UPDATE deliveries SET answer = NULL, body = json_object(
  'type', kind, 'timestamp', strftime('%Y-%m-%dT%H:%M:%fZ', created_at, 'unixepoch'),
  'data', json_object('id', document))
WHERE document IN (SELECT id FROM deleted);
