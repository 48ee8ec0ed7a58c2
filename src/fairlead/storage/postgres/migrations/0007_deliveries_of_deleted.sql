-- When a document is deleted, its deliveries lose what they tell of it.
CREATE INDEX deliveries_of_document ON deliveries (document) WHERE document IS NOT NULL;
-- Of those that were deleted before, the id is left. No time has passed between event and delivery.
UPDATE deliveries SET answer = NULL, body = json_build_object(
  'type', kind,
  'timestamp',
    to_char(to_timestamp(created_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
  'data', json_build_object('id', document))
WHERE document IN (SELECT id FROM deleted);
