-- The schema. Before the first release it is changed in place; its hash identifies it.
-- Times are seconds since 1970. There are no triggers: every write passes one function.

-- --- permanent records ---

CREATE TABLE accounts (                 -- accounts that several customers share
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  weight REAL NOT NULL DEFAULT 1
) STRICT;

CREATE TABLE customers (                -- submissions and settings lock the row
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  created_at REAL NOT NULL,
  account INTEGER,                      -- a shared one
  paused INTEGER NOT NULL DEFAULT 0,
  count INTEGER,                        -- the classic counter; NULL: never checked
  counted_at REAL,
  day INTEGER NOT NULL DEFAULT 0,       -- the last day of a submission, and its bytes
  day_bytes INTEGER NOT NULL DEFAULT 0,
  settings TEXT NOT NULL DEFAULT '{}'   -- JSON, those that differ from the defaults
) STRICT;

CREATE TABLE deleted_customers (        -- no submission brings them back, only an operator
  name TEXT PRIMARY KEY,                -- a SHA-256 of it
  at REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE documents (                -- inserted at acceptance, updated once at the end
  seq INTEGER PRIMARY KEY,              -- the arrival number
  id TEXT NOT NULL UNIQUE,
  customer INTEGER NOT NULL,
  pipeline TEXT NOT NULL,
  queue TEXT,                           -- a later segment of the pipeline; NULL: the first one
  name TEXT NOT NULL,
  size INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  state TEXT NOT NULL                   -- 'waiting' until the end, also while it is processed
    CHECK (state IN ('waiting', 'done', 'failed', 'cancelled')),
  priority INTEGER NOT NULL,
  count INTEGER NOT NULL,
  policy TEXT NOT NULL,
  urgent INTEGER NOT NULL,
  metadata TEXT,                        -- JSON; NULL: none
  reference TEXT,
  not_before REAL,
  batch TEXT,                           -- attachments have that of their document
  submitted_at REAL NOT NULL,
  estimate REAL NOT NULL,
  shape TEXT NOT NULL,
  pages INTEGER,
  parent INTEGER,
  root INTEGER,
  depth INTEGER NOT NULL DEFAULT 0,
  password TEXT,
  kind TEXT,
  started_at REAL,
  finished_at REAL,
  attempts INTEGER NOT NULL DEFAULT 0,
  seconds REAL,
  error TEXT,
  detail TEXT,
  cause TEXT,                           -- the cause of a failure, for operators
  step TEXT,                            -- the step that failed, and its attempt
  step_attempt INTEGER,
  facts TEXT,
  files TEXT                            -- JSON: the files of the result, without their bytes
) STRICT;
CREATE INDEX documents_of_customer ON documents (customer, seq);
-- For lists of one state. On PostgreSQL, they prevent a HOT update at the end of a document.
CREATE INDEX documents_by_state ON documents (state, seq);
CREATE INDEX documents_of_customer_by_state ON documents (customer, state, seq);
CREATE INDEX documents_by_reference ON documents (reference, customer, seq)
WHERE reference IS NOT NULL;
CREATE INDEX documents_of_pipeline ON documents (pipeline, seq) WHERE pipeline <> 'default';
CREATE INDEX documents_of_customer_by_pipeline ON documents (customer, pipeline, seq)
WHERE pipeline <> 'default';
CREATE INDEX documents_of_batch ON documents (batch, seq) WHERE batch IS NOT NULL;
CREATE INDEX pending_of_batch ON documents (batch, seq)
WHERE batch IS NOT NULL AND state = 'waiting';
CREATE INDEX parts ON documents (parent) WHERE parent IS NOT NULL;
CREATE INDEX family ON documents (root) WHERE root IS NOT NULL;

CREATE TABLE batches (                  -- documents that were submitted together
  id TEXT PRIMARY KEY,
  customer INTEGER NOT NULL,
  created_at REAL NOT NULL,
  finished_at REAL                      -- when first none of them was pending
) STRICT, WITHOUT ROWID;

CREATE TABLE metadata_terms (           -- an index of top-level keys of metadata
  key TEXT NOT NULL,                    -- a hash, where it is long
  value TEXT NOT NULL,                  -- its JSON text without quotes; a hash, if it is long
  document INTEGER NOT NULL,
  customer INTEGER NOT NULL,
  PRIMARY KEY (key, value, document)
) STRICT, WITHOUT ROWID;
CREATE INDEX metadata_of_document ON metadata_terms (document);

CREATE TABLE document_numbers (one INTEGER PRIMARY KEY CHECK (one = 1), next INTEGER NOT NULL) STRICT;
INSERT INTO document_numbers VALUES (1, 1);

CREATE TABLE retry_slots (              -- of failed and cancelled documents, and of done ones that swapped
  document INTEGER PRIMARY KEY,
  customer INTEGER NOT NULL,
  slot INTEGER,                         -- to which a retry returns; NULL: its own
  slot_seq INTEGER,
  displaced INTEGER NOT NULL
) STRICT;

CREATE TABLE deleted (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  customer INTEGER NOT NULL,
  at REAL NOT NULL
) STRICT;

CREATE TABLE originals (                -- short ones; long ones are blobs
  document INTEGER PRIMARY KEY,
  content BLOB NOT NULL
) STRICT;

CREATE TABLE results (                  -- the bytes, or the key of a blob
  document INTEGER NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('text', 'markdown', 'data', 'file')),
  name TEXT NOT NULL DEFAULT '',
  key TEXT,
  sha256 TEXT,
  content BLOB,
  media_type TEXT,
  size INTEGER,
  PRIMARY KEY (document, role, name)
) STRICT;

CREATE TABLE interim (                  -- results of finished steps of a pending document
  document INTEGER PRIMARY KEY,
  settled INTEGER NOT NULL,             -- claims that ended by a step's decision
  step TEXT,                            -- the next step, and how many attempts at it have failed
  step_attempts INTEGER NOT NULL,
  later INTEGER NOT NULL,               -- how often the step has asked to be called again later
  body BLOB NOT NULL,                   -- an `Interim`
  keys TEXT NOT NULL                    -- JSON: the keys of its blobs
) STRICT;

CREATE TABLE job_ends (                 -- the last end of a pulled job, which may be sent again
  document INTEGER PRIMARY KEY,
  fence INTEGER NOT NULL,
  owner TEXT NOT NULL,                  -- the API key of the job
  fingerprint TEXT NOT NULL             -- of what ended it
) STRICT;

CREATE TABLE idempotency_keys (
  customer INTEGER NOT NULL,
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  documents TEXT NOT NULL,              -- arrival numbers in JSON
  sender TEXT,                          -- the API key, if one key submits for many customers
  at REAL NOT NULL,
  PRIMARY KEY (customer, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_of_sender ON idempotency_keys (sender, key) WHERE sender IS NOT NULL;

-- --- the queue: only claims write the tables that begin with queue_, but for queue_events ---

CREATE TABLE waiting (                  -- one row per waiting document, in queue order
  customer INTEGER NOT NULL,
  pipeline TEXT NOT NULL,
  slot INTEGER NOT NULL,                -- classic: priority; fair: 0 urgent, 1 others
  slot_seq INTEGER NOT NULL,            -- arrival number, its own or after a swap of slots
  document INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  urgent INTEGER NOT NULL,
  displaced INTEGER NOT NULL DEFAULT 0, -- it swapped slots with an urgent one
  estimate REAL NOT NULL,
  submitted_at REAL NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  suspect INTEGER NOT NULL DEFAULT 0,   -- an attempt was lost with its worker
  error TEXT,                           -- of the last attempt that broke
  detail TEXT,
  PRIMARY KEY (customer, pipeline, slot, slot_seq, document)
) STRICT, WITHOUT ROWID;
CREATE INDEX waiting_by_age ON waiting (customer, pipeline, document);
CREATE INDEX waiting_ahead ON waiting (customer, pipeline, urgent DESC, priority, document)
WHERE urgent = 1 OR displaced = 1;

CREATE TABLE delayed (                  -- not due yet: claims move it to `waiting` when due
  document INTEGER PRIMARY KEY,
  due REAL NOT NULL,
  customer INTEGER NOT NULL,
  pipeline TEXT NOT NULL,
  slot INTEGER NOT NULL,
  slot_seq INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  urgent INTEGER NOT NULL,
  displaced INTEGER NOT NULL DEFAULT 0,
  estimate REAL NOT NULL,
  submitted_at REAL NOT NULL,
  attempts INTEGER NOT NULL,
  suspect INTEGER NOT NULL DEFAULT 0,
  error TEXT,
  detail TEXT
) STRICT;
CREATE INDEX delayed_by_due ON delayed (due, document);

CREATE TABLE running (                  -- current claims
  document INTEGER PRIMARY KEY,
  lease INTEGER NOT NULL,               -- the fence
  worker TEXT NOT NULL,
  ready INTEGER NOT NULL,               -- prefetched: processing may not have begun
  started_at REAL NOT NULL,
  customer INTEGER NOT NULL,
  pipeline TEXT NOT NULL,
  slot INTEGER NOT NULL,
  slot_seq INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  urgent INTEGER NOT NULL,
  displaced INTEGER NOT NULL,
  estimate REAL NOT NULL,
  submitted_at REAL NOT NULL,
  attempts INTEGER NOT NULL,            -- this one included
  suspect INTEGER NOT NULL,
  error TEXT,
  detail TEXT,
  payer INTEGER NOT NULL,               -- the member that was charged, and the charge
  charge REAL,
  charge_weight REAL,
  charged_tag INTEGER,
  inner_charge REAL,
  inner_tag INTEGER
) STRICT;

CREATE TABLE leases (                   -- one row per claim call and worker
  id INTEGER PRIMARY KEY,
  worker TEXT NOT NULL,
  until REAL NOT NULL
) STRICT;
CREATE INDEX leases_by_end ON leases (until);

CREATE TABLE queue_events (             -- since the last claim, one row per transaction
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  body TEXT NOT NULL
) STRICT;

CREATE TABLE queue_members (            -- customers, and shared accounts under negative numbers
  id INTEGER PRIMARY KEY,
  account INTEGER,                      -- the member that is its shared account
  paused INTEGER NOT NULL,
  cap INTEGER,
  processing INTEGER NOT NULL,
  delayed INTEGER NOT NULL,
  last_started_at REAL,
  weight REAL NOT NULL,
  interval REAL,
  debt REAL NOT NULL,
  debt_at REAL NOT NULL,
  tag REAL NOT NULL,
  queued REAL NOT NULL,                 -- the sum of estimates of waiting documents
  tagged INTEGER NOT NULL,
  work REAL NOT NULL,                   -- recent work, for the figures
  work_at REAL NOT NULL,
  inner_clock REAL,                     -- of a shared account
  resumed_at REAL,
  told_of REAL                          -- when the wait began that broke the bound and was reported
) STRICT;
CREATE INDEX members_of_account ON queue_members (account) WHERE account IS NOT NULL;

CREATE TABLE queue_entries (            -- a member's waiting documents of one pipeline
  member INTEGER NOT NULL,
  pipeline TEXT NOT NULL,
  waiting INTEGER NOT NULL,
  head INTEGER,                         -- its best slot
  head_seq INTEGER,
  oldest_seq INTEGER,                   -- its oldest document
  oldest_at REAL,
  has_ahead INTEGER NOT NULL,           -- some of them may be urgent or displaced
  class INTEGER,                        -- its place; NULL: none of its documents may run
  rank REAL,
  ticket INTEGER,
  waits_since REAL,                     -- for the overdue lane; NULL: it is inside an account
  tie INTEGER,
  PRIMARY KEY (member, pipeline)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_places ON queue_entries (pipeline, class, rank, ticket)
WHERE waits_since IS NOT NULL;
CREATE INDEX queue_waits ON queue_entries (pipeline, waits_since, tie)
WHERE waits_since IS NOT NULL;

CREATE TABLE queue_state (              -- one row
  one INTEGER PRIMARY KEY CHECK (one = 1),
  version INTEGER NOT NULL,             -- raised by every claim that writes
  policy TEXT NOT NULL,
  clock REAL NOT NULL,
  credit INTEGER NOT NULL,
  next_ticket INTEGER NOT NULL,
  quotas TEXT NOT NULL,                 -- JSON, by pipeline
  claims INTEGER NOT NULL,
  lane_claims INTEGER NOT NULL,
  longest REAL NOT NULL                 -- seconds of the longest document; fades
) STRICT;
INSERT INTO queue_state VALUES (1, 0, 'classic', 0, 0, 0, '{}', 0, 0, 0);

CREATE TABLE queue_tallies (            -- documents by state and priority
  state TEXT NOT NULL,
  priority INTEGER NOT NULL,
  documents INTEGER NOT NULL,
  PRIMARY KEY (state, priority)
) STRICT, WITHOUT ROWID;

CREATE TABLE queue_costs (              -- learned processing times by shape and length
  shape TEXT NOT NULL,
  by TEXT NOT NULL,
  doublings INTEGER NOT NULL,
  documents INTEGER NOT NULL,
  seconds REAL NOT NULL,
  PRIMARY KEY (shape, by, doublings)
) STRICT, WITHOUT ROWID;

CREATE TABLE attendance (               -- engines that run, and their workers
  engine TEXT PRIMARY KEY,
  workers INTEGER NOT NULL,
  until REAL NOT NULL,
  pipelines TEXT NOT NULL,              -- JSON: the pipelines that it serves
  steps TEXT NOT NULL                   -- JSON: a `StepUse` for each of its steps
) STRICT, WITHOUT ROWID;

CREATE TABLE blob_places (              -- places of blobs, with the installation's id in a marker
  place TEXT PRIMARY KEY,
  installation TEXT NOT NULL,
  marked INTEGER NOT NULL               -- 1: the marker was written, so it must exist
) STRICT, WITHOUT ROWID;

CREATE TABLE usage (                    -- insert only, so that no writers wait for each other; summed
  id INTEGER PRIMARY KEY AUTOINCREMENT, -- now and then; stays when documents and customers go
  customer INTEGER NOT NULL,
  day INTEGER NOT NULL,                 -- since 1970, UTC
  documents INTEGER NOT NULL,
  pages INTEGER NOT NULL,
  ocr_pages INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  seconds REAL NOT NULL,
  failures INTEGER NOT NULL
) STRICT;
CREATE INDEX usage_of_customer ON usage (customer, day);

-- --- events, keys, webhooks ---

CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at REAL NOT NULL,
  kind TEXT NOT NULL,
  customer INTEGER NOT NULL,            -- 0: the whole installation
  document INTEGER,
  data TEXT,
  actor TEXT
) STRICT;
CREATE INDEX audit ON events (seq) WHERE actor IS NOT NULL;
CREATE INDEX events_of_customer ON events (customer, seq);
CREATE INDEX ends ON events (seq) WHERE kind IN ('done', 'failed', 'cancelled');
CREATE INDEX ends_of_customer ON events (customer, seq)
WHERE kind IN ('done', 'failed', 'cancelled');
CREATE INDEX events_of_document ON events (document) WHERE document IS NOT NULL;

CREATE TABLE access_keys (
  id TEXT PRIMARY KEY,
  role TEXT NOT NULL CHECK (role IN ('customer', 'service', 'viewer', 'worker', 'link', 'operator')),
  customer INTEGER REFERENCES customers (id),
  name TEXT,                            -- of a service, a viewer or a worker
  sha256 TEXT NOT NULL,
  created_at REAL NOT NULL,
  revoked_at REAL,
  expires_at REAL
) STRICT, WITHOUT ROWID;

CREATE TABLE webhooks (
  id TEXT PRIMARY KEY,
  customer INTEGER REFERENCES customers (id),  -- NULL: all customers
  url TEXT NOT NULL,
  kinds TEXT NOT NULL,                  -- names in JSON
  secret TEXT NOT NULL,                 -- in plain text: every delivery is signed with it
  enabled INTEGER NOT NULL DEFAULT 1,
  created_at REAL NOT NULL,
  failing_since REAL,                   -- the first failed attempt since the last good one
  disabled_because TEXT,
  due_at REAL                           -- of its first pending delivery; NULL: nothing to send
) STRICT, WITHOUT ROWID;
CREATE INDEX webhooks_of_customer ON webhooks (customer);
CREATE INDEX webhooks_due ON webhooks (due_at) WHERE enabled = 1 AND due_at IS NOT NULL;

CREATE TABLE deliveries (               -- AUTOINCREMENT: receivers see the number, so it is never reused
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  webhook TEXT NOT NULL REFERENCES webhooks (id),
  kind TEXT NOT NULL,
  document TEXT,
  body TEXT NOT NULL,                   -- the same at every attempt
  created_at REAL NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  fence INTEGER NOT NULL DEFAULT 0,
  due_at REAL,                          -- the next attempt, or the end of a lease; NULL: settled
  delivered INTEGER NOT NULL DEFAULT 0,
  last_at REAL,
  code INTEGER,
  answer TEXT,
  error TEXT
) STRICT;
CREATE INDEX deliveries_due ON deliveries (webhook, due_at, seq) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_of_webhook ON deliveries (webhook, seq);
CREATE INDEX deliveries_settled ON deliveries (last_at) WHERE due_at IS NULL;
CREATE INDEX deliveries_of_document ON deliveries (document) WHERE document IS NOT NULL;
