-- Customers form a line by the place of their best waiting document; documents queue within
-- their customer. So a claim looks at one row of each, however many documents wait.

CREATE TABLE customers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  created_at REAL NOT NULL,
  -- the policy's record; NULL: never checked
  count INTEGER,
  counted_at REAL,
  -- settings of its own; NULL: the installation's
  processing_cap INTEGER,
  pending_cap INTEGER,
  reset_interval REAL,
  thresholds TEXT,
  paused INTEGER NOT NULL DEFAULT 0,
  -- true numbers, kept in the transactions that change them
  waiting INTEGER NOT NULL DEFAULT 0,
  processing INTEGER NOT NULL DEFAULT 0,
  last_started_at REAL,
  -- its place in the line; NULL: nothing that may run (empty, paused or at its cap)
  head_rank REAL,
  head_seq INTEGER,
  -- since when it waits for a start
  waits_since REAL
) STRICT;

CREATE INDEX line ON customers (head_rank, head_seq) WHERE head_rank IS NOT NULL;
CREATE INDEX lane ON customers (waits_since) WHERE head_rank IS NOT NULL;

CREATE TABLE documents (
  seq INTEGER PRIMARY KEY,              -- order of arrival
  id TEXT NOT NULL UNIQUE,
  customer INTEGER NOT NULL REFERENCES customers (id),
  name TEXT NOT NULL,
  size INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  kind TEXT,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'processing', 'done', 'failed', 'cancelled')),
  priority INTEGER NOT NULL,
  count INTEGER NOT NULL,
  policy TEXT NOT NULL,
  urgent INTEGER NOT NULL,
  submitted_at REAL NOT NULL,
  started_at REAL,
  finished_at REAL,
  attempts INTEGER NOT NULL DEFAULT 0,  -- tries that count against the limit
  fence INTEGER NOT NULL DEFAULT 0,     -- number of the newest claim
  worker TEXT,
  lease_until REAL,
  retry_at REAL,                        -- waiting, but not before then
  rank REAL NOT NULL,                   -- the policy's sort key is (rank, seq)
  -- The place it holds among the documents of its customer. It differs from its own key only where
  -- urgent documents went first and swapped places: the places of a customer are always the keys
  -- of its documents, so no swap, retry or cancellation wins it a place.
  slot_rank REAL NOT NULL,
  slot_seq INTEGER NOT NULL,
  queued INTEGER NOT NULL,              -- 1: may be claimed; 0: delayed, claimed or at its end
  ahead INTEGER,                        -- 0: urgent; 1: lost its place to an urgent one
  error TEXT,
  detail TEXT,
  facts TEXT,
  text_key TEXT,
  text_sha256 TEXT,
  seconds REAL                          -- of work, in the attempt that ended it
) STRICT;

CREATE INDEX documents_of_customer ON documents (customer);
CREATE INDEX queue ON documents (customer, slot_rank, slot_seq) WHERE queued = 1;
CREATE INDEX arrivals ON documents (customer, slot_seq) WHERE queued = 1;
CREATE INDEX ahead ON documents (customer, ahead, rank, seq) WHERE ahead IS NOT NULL;
CREATE INDEX leases ON documents (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX retries ON documents (retry_at) WHERE retry_at IS NOT NULL;

-- What belongs to the line as a whole; one row.
CREATE TABLE line_state (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  next_seq INTEGER NOT NULL,
  lane_credit REAL NOT NULL
) STRICT;
INSERT INTO line_state VALUES (1, 1, 0);

-- The documents that one idempotency key stands for: `documents` of them, from `first_seq` on.
CREATE TABLE idempotency (
  customer INTEGER NOT NULL REFERENCES customers (id),
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  first_seq INTEGER NOT NULL,
  documents INTEGER NOT NULL,
  at REAL NOT NULL,
  PRIMARY KEY (customer, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
  seq INTEGER PRIMARY KEY,
  at REAL NOT NULL,
  kind TEXT NOT NULL,
  customer INTEGER NOT NULL,
  document INTEGER,
  data TEXT
) STRICT;
