-- Webhooks: where customers want to be told, and what there is to tell them.

CREATE TABLE webhooks (
  id TEXT PRIMARY KEY,
  customer INTEGER NOT NULL REFERENCES customers (id),
  url TEXT NOT NULL,
  kinds TEXT NOT NULL,            -- names in JSON
  secret TEXT NOT NULL,           -- as it was shown; every delivery is signed with it
  enabled INTEGER NOT NULL DEFAULT 1,
  created_at REAL NOT NULL,
  failing_since REAL,             -- the first failed attempt since the last good one
  disabled_because TEXT,
  due_at REAL                     -- of its first pending delivery; NULL: nothing to send
) STRICT, WITHOUT ROWID;
CREATE INDEX webhooks_of_customer ON webhooks (customer);
CREATE INDEX webhooks_due ON webhooks (due_at) WHERE enabled = 1 AND due_at IS NOT NULL;

-- AUTOINCREMENT: the number is part of the id that receivers see, so it is never given twice.
CREATE TABLE deliveries (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  webhook TEXT NOT NULL REFERENCES webhooks (id),
  kind TEXT NOT NULL,
  document TEXT,
  body TEXT NOT NULL,             -- as it is sent, the same at every attempt
  created_at REAL NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  fence INTEGER NOT NULL DEFAULT 0,
  due_at REAL,                    -- the next attempt, or the end of a claim; NULL: settled
  delivered INTEGER NOT NULL DEFAULT 0,
  last_at REAL,
  code INTEGER,
  answer TEXT,
  error TEXT
) STRICT;
CREATE INDEX deliveries_due ON deliveries (webhook, due_at, seq) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_of_webhook ON deliveries (webhook, seq);
CREATE INDEX deliveries_settled ON deliveries (last_at) WHERE due_at IS NULL;
