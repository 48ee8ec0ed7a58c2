-- Access over the network: keys, who decided what, what was deleted, and how much there is.

-- Only the SHA-256 of a key's secret is kept. No customer: an operator's.
CREATE TABLE keys (
  id TEXT PRIMARY KEY,
  customer INTEGER REFERENCES customers (id),
  sha256 TEXT NOT NULL,
  created_at REAL NOT NULL,
  revoked_at REAL
) STRICT, WITHOUT ROWID;

-- Who decided: the id of a key, or a word such as "command-line". NULL: nobody did.
ALTER TABLE events ADD COLUMN actor TEXT;
CREATE INDEX audit ON events (seq) WHERE actor IS NOT NULL;
CREATE INDEX events_of_customer ON events (customer);

-- What stays of a deleted document: enough to tell its events and its repeats.
CREATE TABLE deleted (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  customer INTEGER NOT NULL,
  at REAL NOT NULL
) STRICT;

-- Bytes that the customer sent on the newest day (since 1970, UTC) on which it sent any.
ALTER TABLE customers ADD COLUMN day INTEGER NOT NULL DEFAULT 0;
ALTER TABLE customers ADD COLUMN day_bytes INTEGER NOT NULL DEFAULT 0;

-- True numbers of documents, kept in the transactions that change them.
CREATE TABLE tallies (
  state TEXT NOT NULL,
  priority INTEGER NOT NULL,
  documents INTEGER NOT NULL,
  PRIMARY KEY (state, priority)
) STRICT, WITHOUT ROWID;
INSERT INTO tallies SELECT state, priority, count(*) FROM documents GROUP BY state, priority;

CREATE TRIGGER tally_new AFTER INSERT ON documents
BEGIN
  INSERT INTO tallies VALUES (NEW.state, NEW.priority, 1)
  ON CONFLICT (state, priority) DO UPDATE SET documents = documents + 1;
END;

CREATE TRIGGER tally_change AFTER UPDATE OF state, priority ON documents
WHEN OLD.state <> NEW.state OR OLD.priority <> NEW.priority
BEGIN
  UPDATE tallies SET documents = documents - 1
  WHERE state = OLD.state AND priority = OLD.priority;
  INSERT INTO tallies VALUES (NEW.state, NEW.priority, 1)
  ON CONFLICT (state, priority) DO UPDATE SET documents = documents + 1;
END;

CREATE TRIGGER tally_gone AFTER DELETE ON documents
BEGIN
  UPDATE tallies SET documents = documents - 1
  WHERE state = OLD.state AND priority = OLD.priority;
END;
