-- The fair rule: accounts with their finish tags, the virtual clock, learnt costs, and the ideal
-- server that the fairness figures compare with.

-- Each customer has an account; a named one is shared by several customers, one bill for all.
CREATE TABLE accounts (
  id INTEGER PRIMARY KEY,
  name TEXT UNIQUE,                        -- NULL: one customer's own
  weight INTEGER NOT NULL DEFAULT 1000,    -- in thousandths, so that sums are exact
  -- the fair rule's record; NULL: no document yet
  finish REAL,
  last_tag REAL,
  submitted_at REAL,
  -- true numbers over its customers
  waiting INTEGER NOT NULL DEFAULT 0,
  processing INTEGER NOT NULL DEFAULT 0,
  runnable INTEGER NOT NULL DEFAULT 0,     -- customers of it that are in the line
  -- while any is: where the ideal server stood when that began, and the work done since
  ideal_from REAL NOT NULL DEFAULT 0,
  done_since REAL NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX finishes ON accounts (finish) WHERE finish IS NOT NULL;
INSERT INTO accounts (id, waiting, processing, runnable)
SELECT id, waiting, processing, head_rank IS NOT NULL FROM customers;

ALTER TABLE customers ADD COLUMN account INTEGER NOT NULL DEFAULT 0;
ALTER TABLE customers ADD COLUMN lift REAL NOT NULL DEFAULT 0;  -- added to its documents' tags
ALTER TABLE customers ADD COLUMN runnable_since REAL;           -- since when it is in the line
ALTER TABLE customers ADD COLUMN told_of REAL;                  -- the wait that was reported
UPDATE customers SET account = id, runnable_since = waits_since;
CREATE INDEX customers_of_account ON customers (account);

ALTER TABLE documents ADD COLUMN shape TEXT NOT NULL DEFAULT 'other';
ALTER TABLE documents ADD COLUMN pages INTEGER;                  -- where the first bytes told
ALTER TABLE documents ADD COLUMN estimate REAL NOT NULL DEFAULT 0.02;
-- The classic rule's count where `count` is another rule's: going back to classic is exact.
ALTER TABLE documents ADD COLUMN classic_count INTEGER;

ALTER TABLE line_state ADD COLUMN policy TEXT NOT NULL DEFAULT 'classic';
ALTER TABLE line_state ADD COLUMN clock REAL NOT NULL DEFAULT 0;
ALTER TABLE line_state ADD COLUMN clock_at REAL NOT NULL DEFAULT 0;
ALTER TABLE line_state ADD COLUMN ideal REAL NOT NULL DEFAULT 0;         -- a second of work for each weight of 1
ALTER TABLE line_state ADD COLUMN backlog INTEGER NOT NULL DEFAULT 0;    -- weights of accounts in the line
ALTER TABLE line_state ADD COLUMN customers INTEGER NOT NULL DEFAULT 0;  -- customers in the line
ALTER TABLE line_state ADD COLUMN lane_work REAL NOT NULL DEFAULT 0;
ALTER TABLE line_state ADD COLUMN all_work REAL NOT NULL DEFAULT 0;
ALTER TABLE line_state ADD COLUMN longest REAL NOT NULL DEFAULT 0;       -- seconds of the longest document
UPDATE line_state SET
  backlog = 1000 * (SELECT count(*) FROM customers WHERE head_rank IS NOT NULL),
  customers = (SELECT count(*) FROM customers WHERE head_rank IS NOT NULL);

CREATE TRIGGER joins_the_line AFTER UPDATE OF head_rank ON customers
WHEN OLD.head_rank IS NULL AND NEW.head_rank IS NOT NULL
BEGIN
  UPDATE customers SET runnable_since = (SELECT clock_at FROM line_state) WHERE id = NEW.id;
  UPDATE accounts SET runnable = runnable + 1 WHERE id = NEW.account;
  UPDATE accounts SET ideal_from = (SELECT ideal FROM line_state), done_since = 0
  WHERE id = NEW.account AND runnable = 1;
  UPDATE line_state SET
    customers = customers + 1,
    backlog = backlog + (SELECT weight * (runnable = 1) FROM accounts WHERE id = NEW.account);
END;

CREATE TRIGGER leaves_the_line AFTER UPDATE OF head_rank ON customers
WHEN OLD.head_rank IS NOT NULL AND NEW.head_rank IS NULL
BEGIN
  UPDATE accounts SET runnable = runnable - 1 WHERE id = NEW.account;
  UPDATE line_state SET
    customers = customers - 1,
    backlog = backlog - (SELECT weight * (runnable = 0) FROM accounts WHERE id = NEW.account);
END;

-- Engines at work, with as many workers as each has.
CREATE TABLE attendance (
  engine TEXT PRIMARY KEY,
  workers INTEGER NOT NULL,
  until REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- Mean seconds of work by shape and length, as far as measured.
CREATE TABLE costs (
  shape TEXT NOT NULL,
  by TEXT NOT NULL,
  doublings INTEGER NOT NULL,
  documents INTEGER NOT NULL,
  seconds REAL NOT NULL,
  PRIMARY KEY (shape, by, doublings)
) STRICT, WITHOUT ROWID;
