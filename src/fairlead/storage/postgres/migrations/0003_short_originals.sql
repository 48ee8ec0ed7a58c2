-- Documents that are short: a file for each would cost more than its row. Most are compressed by
-- themselves, so nothing is gained by trying it here.
CREATE TABLE short_originals (
  document BIGINT PRIMARY KEY,
  content BYTEA NOT NULL
);
ALTER TABLE short_originals ALTER COLUMN content SET STORAGE EXTERNAL;

ALTER TABLE short_originals ENABLE ROW LEVEL SECURITY;
ALTER TABLE short_originals FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON short_originals USING (
  (SELECT only_customer()) IS NULL
  OR (SELECT customer FROM documents WHERE seq = document) = (SELECT only_customer()));
