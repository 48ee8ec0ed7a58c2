-- Every statement of the stores, by name, in words that SQLite and PostgreSQL both understand.
-- INDEXED BY stands where another plan would grow with the number of documents; in SQLite, without
-- its index such a statement fails instead of slowing down. PostgreSQL has its own ways: it is left
-- out there, and max of two values and json_each of a text are functions of the schema.

-- name: select_for_check
SELECT
  id, name, count, counted_at, reset_interval, thresholds, pending_cap, waiting + processing, lift,
  day, day_bytes, bytes_a_day
FROM customers;

-- name: add_customer
INSERT INTO customers (name, created_at, account) VALUES (?, ?, ?) RETURNING id;

-- name: add_account
INSERT INTO accounts (name) VALUES (?) RETURNING id;

-- name: save_check
UPDATE customers SET count = ?, counted_at = ?, day = ?, day_bytes = ? WHERE id = ?;

-- name: take_seqs
UPDATE line_state SET next_seq = next_seq + ? RETURNING next_seq;

-- name: insert_document
INSERT INTO documents (
  seq, id, customer, name, size, sha256, state, priority, count, policy, urgent, submitted_at,
  rank, slot_rank, slot_seq, queued, ahead, classic_count, shape, pages, estimate, password, parent,
  root, depth)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'waiting', ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?1, 1, ?13, ?14, ?15,
  ?16, ?17, ?18, ?19, ?20, ?21);

-- name: keep_original
INSERT INTO short_originals (document, content) VALUES (?, ?);

-- name: short_original
SELECT content FROM short_originals WHERE document = (SELECT seq FROM documents WHERE id = ?);

-- name: forget_original
DELETE FROM short_originals WHERE document = ?;

-- name: add_event
INSERT INTO events (at, kind, customer, document, data, actor) VALUES (?, ?, ?, ?, ?, ?);

-- name: family_of
SELECT count(*), coalesce(sum(size), 0) FROM documents WHERE root = ?;

-- name: find_key
SELECT fingerprint, first_seq, documents FROM idempotency WHERE customer = ? AND key = ?;

-- name: add_key
INSERT INTO idempotency (customer, key, fingerprint, first_seq, documents, at)
VALUES (?, ?, ?, ?, ?, ?);

-- name: refresh_customer
-- Changes the customer's numbers, and puts it where it then belongs in the line.
UPDATE customers SET
  waiting = waiting + ?2,
  processing = processing + ?3,
  last_started_at = coalesce(?4, last_started_at),
  (head_rank, head_seq) = (
    SELECT slot_rank + customers.lift, slot_seq FROM documents INDEXED BY queue
    WHERE customer = customers.id AND queued = 1
      AND NOT customers.paused
      AND (customers.processing_cap IS NULL
           OR customers.processing + ?3 < customers.processing_cap)
    ORDER BY slot_rank, slot_seq LIMIT 1),
  waits_since = (
    SELECT max(submitted_at, coalesce(?4, customers.last_started_at, submitted_at))
    FROM documents INDEXED BY arrivals
    WHERE customer = customers.id AND queued = 1
    ORDER BY slot_seq LIMIT 1)
WHERE id = ?1;

-- name: count_for_account
UPDATE accounts SET
  waiting = waiting + ?2, processing = processing + ?3, done_since = done_since + ?4
WHERE id = (SELECT account FROM customers WHERE id = ?1);

-- name: line_state
SELECT
  policy, clock, clock_at, ideal, lane_credit, backlog, customers,
  (SELECT coalesce(sum(workers), 0) FROM attendance WHERE until > ?), longest
FROM line_state;

-- name: bring_clocks
UPDATE line_state SET clock = ?, clock_at = ?, ideal = ?;

-- name: save_clock
UPDATE line_state SET clock = ?;

-- name: save_turns
UPDATE line_state SET
  lane_credit = ?, clock = ?, lane_work = lane_work + ?, all_work = all_work + ?;

-- name: save_policy
UPDATE line_state SET policy = ?, lane_credit = 0, lane_work = 0, all_work = 0;

-- name: save_longest
UPDATE line_state SET longest = ?;

-- name: backlog
SELECT backlog FROM line_state;

-- name: attend
INSERT INTO attendance (engine, workers, until) VALUES (?1, ?2, ?3)
ON CONFLICT (engine) DO UPDATE SET workers = ?2, until = ?3;

-- name: leave
DELETE FROM attendance WHERE engine = ? OR until <= ?;

-- name: may_find
SELECT
  EXISTS (SELECT 1 FROM customers WHERE head_rank IS NOT NULL)
  OR EXISTS (SELECT 1 FROM documents WHERE retry_at IS NOT NULL AND retry_at <= ?1)
  OR EXISTS (SELECT 1 FROM documents WHERE lease_until IS NOT NULL AND lease_until < ?1);

-- name: claimable
SELECT
  coalesce((
    SELECT sum(c.waiting)
    FROM (SELECT waiting FROM customers WHERE head_rank IS NOT NULL LIMIT ?2) c), 0)
  + (SELECT count(*) FROM (
    SELECT 1 FROM documents WHERE retry_at IS NOT NULL AND retry_at <= ?1 LIMIT ?2) d)
  + (SELECT count(*) FROM (
    SELECT 1 FROM documents WHERE lease_until IS NOT NULL AND lease_until < ?1 LIMIT ?2) e);

-- name: most_overdue
SELECT id FROM customers
WHERE head_rank IS NOT NULL AND waits_since < ? ORDER BY waits_since, id LIMIT 1;

-- name: longest_waiting
SELECT id, waits_since, runnable_since, told_of, name FROM customers
WHERE head_rank IS NOT NULL ORDER BY waits_since, id LIMIT 1;

-- name: told_of
UPDATE customers SET told_of = waits_since WHERE id = ?;

-- name: first_in_line
-- The customer whose turn it is, the holder of its best place, and its document that is to go ahead.
SELECT
  first.id, first.head_rank, h.seq, h.slot_rank, h.slot_seq, j.seq, j.ahead, j.rank, j.slot_rank,
  j.slot_seq
FROM (
  SELECT id, head_rank FROM customers
  WHERE head_rank IS NOT NULL ORDER BY head_rank, head_seq LIMIT 1) AS first
  JOIN documents h ON h.seq = (
    SELECT seq FROM documents INDEXED BY queue
    WHERE customer = first.id AND queued = 1 ORDER BY slot_rank, slot_seq LIMIT 1)
  LEFT JOIN documents j ON j.seq = (
    SELECT seq FROM documents INDEXED BY ahead
    WHERE customer = first.id AND ahead IS NOT NULL ORDER BY ahead, rank, seq LIMIT 1);

-- name: account_of_customer
SELECT a.id, a.finish, a.last_tag, a.submitted_at, a.weight, a.waiting + a.processing
FROM customers c JOIN accounts a ON a.id = c.account WHERE c.id = ?;

-- name: save_tags
UPDATE accounts SET finish = ?, last_tag = ?, submitted_at = ? WHERE id = ?;

-- name: highest_finish
-- Of the accounts of which nothing waits.
SELECT finish FROM accounts INDEXED BY finishes
WHERE finish > ? AND waiting = 0 ORDER BY finish DESC LIMIT 1;

-- name: last_waiting_tag
SELECT max((SELECT slot_rank + c.lift FROM documents INDEXED BY queue
            WHERE customer = c.id AND queued = 1 ORDER BY slot_rank DESC, slot_seq DESC LIMIT 1))
FROM customers c WHERE c.account = ?;

-- name: cost_row
SELECT documents, seconds FROM costs WHERE shape = ? AND by = ? AND doublings = ?;

-- name: cost_rows
SELECT doublings, documents, seconds FROM costs WHERE shape = ? AND by = ?;

-- name: save_cost
INSERT INTO costs (shape, by, doublings, documents, seconds) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (shape, by, doublings) DO UPDATE SET documents = ?4, seconds = ?5;

-- name: oldest_of_customer
-- The holder of the oldest place: the oldest document, unless an urgent one used up its place.
SELECT seq, estimate FROM documents INDEXED BY arrivals
WHERE customer = ? AND queued = 1 ORDER BY slot_seq LIMIT 1;

-- name: give_slot
UPDATE documents SET slot_rank = ?, slot_seq = ?, ahead = coalesce(ahead, 1) WHERE seq = ?;

-- name: claim_document
-- Nothing, where it would lie ready (?4) and is a suspect.
UPDATE documents SET
  state = 'processing', fence = fence + 1, attempts = attempts + 1, worker = ?1, lease_until = ?2,
  started_at = ?3, ready = ?4, queued = 0, ahead = NULL
WHERE seq = ?5 AND (NOT ?4 OR (attempts = 0 AND NOT suspect))
RETURNING
  id, fence, worker, (SELECT name FROM customers WHERE id = customer), name, size, sha256,
  priority, submitted_at, started_at, attempts, depth, password, error IS NOT NULL,
  attempts > 1 OR suspect, (SELECT content FROM short_originals WHERE document = seq), estimate;

-- name: held_claim
SELECT seq, customer, attempts, estimate, shape, pages, size, urgent, root, depth FROM documents
WHERE id = ? AND fence = ? AND state = 'processing';

-- name: renew_claim
UPDATE documents SET lease_until = ? WHERE id = ? AND fence = ? AND state = 'processing'
RETURNING 1;

-- name: is_held
SELECT 1 FROM documents WHERE id = ? AND fence = ? AND state = 'processing';

-- name: finish_document
UPDATE documents SET
  state = 'done', kind = ?, facts = ?, text_key = ?, text_sha256 = ?, markdown_key = ?,
  markdown_sha256 = ?, seconds = ?, finished_at = ?,
  worker = NULL, lease_until = NULL, error = NULL, detail = NULL, password = NULL
WHERE seq = ?;

-- name: keep_texts
INSERT INTO short_texts (document, text, markdown) VALUES (?, ?, ?);

-- name: short_texts
SELECT text, markdown FROM short_texts WHERE document = (SELECT seq FROM documents WHERE id = ?);

-- name: forget_texts
DELETE FROM short_texts WHERE document = ?;

-- name: fail_document
UPDATE documents SET
  state = 'failed', kind = coalesce(?, kind), error = ?, detail = ?, seconds = ?,
  finished_at = ?, worker = NULL, lease_until = NULL, password = NULL
WHERE seq = ?;

-- name: requeue_document
-- Back to its place in the queue.
UPDATE documents SET
  state = 'waiting', started_at = NULL, worker = NULL, lease_until = NULL, retry_at = NULL,
  attempts = attempts - ?2, queued = 1,
  ahead = CASE WHEN urgent THEN 0 WHEN slot_seq <> seq THEN 1 END
WHERE seq = ?1;

-- name: suspect_document
UPDATE documents SET suspect = TRUE WHERE seq = ?;

-- name: delay_document
UPDATE documents SET
  state = 'waiting', started_at = NULL, worker = NULL, lease_until = NULL, retry_at = ?,
  error = ?, detail = ?
WHERE seq = ?;

-- name: due_retries
SELECT seq, customer FROM documents
WHERE retry_at IS NOT NULL AND retry_at <= ? ORDER BY retry_at LIMIT 500;

-- name: expired_leases
SELECT seq, customer, attempts, ready, worker FROM documents
WHERE lease_until IS NOT NULL AND lease_until < ? ORDER BY lease_until LIMIT 500;

-- name: leases_of_worker
SELECT seq, customer, attempts, ready, worker FROM documents
WHERE lease_until IS NOT NULL AND worker = ?;

-- name: claims_of_worker
SELECT id, fence FROM documents WHERE lease_until IS NOT NULL AND worker = ?;

-- name: lease_holders
SELECT DISTINCT worker FROM documents WHERE lease_until IS NOT NULL;

-- name: find_document
SELECT seq, customer, state, estimate, started_at FROM documents WHERE id = ?;

-- name: cancel_document
UPDATE documents SET
  state = 'cancelled', finished_at = ?, worker = NULL, lease_until = NULL, retry_at = NULL,
  queued = 0, ahead = NULL, password = NULL
WHERE seq = ?;

-- name: retry_document
UPDATE documents SET
  state = 'waiting', attempts = 0, suspect = FALSE, started_at = NULL, finished_at = NULL,
  retry_at = NULL, seconds = NULL, error = NULL, detail = NULL, queued = 1,
  ahead = CASE WHEN urgent THEN 0 WHEN slot_seq <> seq THEN 1 END
WHERE seq = ?;

-- name: place_of_retried
SELECT
  d.policy, coalesce(d.classic_count, d.count), c.reset_interval, c.thresholds, c.lift
FROM documents d JOIN customers c ON c.id = d.customer WHERE d.seq = ?;

-- name: place_document
UPDATE documents SET
  count = ?2, priority = ?3, policy = ?4, rank = ?5, slot_rank = ?5, slot_seq = seq,
  classic_count = ?6, ahead = CASE WHEN urgent AND queued = 1 THEN 0 END
WHERE seq = ?1;

-- name: pending_accounts
SELECT id, weight FROM accounts WHERE waiting + processing > 0;

-- name: pending_customers
SELECT id, reset_interval, thresholds FROM customers WHERE account = ?;

-- name: pending_documents
SELECT
  d.seq, d.customer, coalesce(d.classic_count, d.count), d.priority, d.estimate, d.submitted_at
FROM customers c JOIN documents d ON d.customer = c.id
WHERE c.account = ? AND d.state IN ('waiting', 'processing') ORDER BY d.seq;

-- name: forget_tags
UPDATE accounts SET finish = NULL, last_tag = NULL, submitted_at = NULL WHERE finish IS NOT NULL;

-- name: forget_lifts
UPDATE customers SET lift = 0 WHERE lift <> 0;

-- name: lift_customer
UPDATE customers SET lift = lift + ? WHERE id = ?;

-- name: first_tag_outside_the_line
-- The best place of a customer that is not in the line.
SELECT d.slot_rank + c.lift FROM customers c JOIN documents d INDEXED BY queue ON d.customer = c.id
WHERE c.id = ? AND c.head_rank IS NULL AND d.queued = 1
ORDER BY d.slot_rank, d.slot_seq LIMIT 1;

-- name: pending_room
SELECT pending_cap, waiting + processing, name FROM customers WHERE id = ?;

-- name: customer_id
SELECT id FROM customers WHERE name = ?;

-- name: set_paused
UPDATE customers SET paused = ?1 WHERE id = ?2 AND paused <> ?1 RETURNING 1;

-- name: reset_customer
UPDATE customers SET count = NULL, counted_at = NULL WHERE id = ?;

-- name: find_account
SELECT id FROM accounts WHERE name = ?;

-- name: account_settings
SELECT a.id, a.name, a.weight FROM customers c JOIN accounts a ON a.id = c.account WHERE c.id = ?;

-- name: join_account
UPDATE customers SET account = ? WHERE id = ?;

-- name: carry_tags
-- What comes next must not overtake what waits already, and no debt is left behind.
UPDATE accounts SET
  finish = max(coalesce(finish, old_finish), coalesce(old_finish, finish)),
  last_tag = max(coalesce(last_tag, old_tag), coalesce(old_tag, last_tag)),
  submitted_at = max(coalesce(submitted_at, old_at), coalesce(old_at, submitted_at))
FROM (
  SELECT finish AS old_finish, last_tag AS old_tag, submitted_at AS old_at
  FROM accounts WHERE id = ?1) AS old
WHERE id = ?2;

-- name: set_weight
UPDATE accounts SET weight = ? WHERE id = ?;

-- name: recount_accounts
UPDATE accounts SET
  (waiting, processing, runnable) = (
    SELECT
      coalesce(sum(waiting), 0), coalesce(sum(processing), 0), count(head_rank)
    FROM customers WHERE account = accounts.id)
WHERE id IN (?, ?);

-- name: recount_backlog
UPDATE line_state SET
  backlog = (SELECT coalesce(sum(weight), 0) FROM accounts WHERE runnable > 0);

-- name: seq_of_document
SELECT seq FROM (
  SELECT seq, id FROM documents UNION ALL SELECT seq, id FROM deleted) AS known WHERE id = ?

-- name: add_access_key
INSERT INTO keys (id, customer, sha256, created_at) VALUES (?, ?, ?, ?);

-- name: access_key_sha256
SELECT sha256 FROM keys WHERE id = ?;

-- name: revoke_access_key
UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL RETURNING customer;

-- name: find_deleted
SELECT 1 FROM deleted WHERE id = ?;

-- name: deleted_customer
SELECT c.name FROM deleted x JOIN customers c ON c.id = x.customer WHERE x.id = ?;

-- name: before_document
d.seq < (SELECT seq FROM (
  SELECT seq, id FROM documents UNION ALL SELECT seq, id FROM deleted) AS known WHERE id = ?)

-- name: bury_document
INSERT INTO deleted (seq, id, customer, at) SELECT seq, id, customer, ?2 FROM documents WHERE seq = ?1;

-- name: delete_document
DELETE FROM documents WHERE seq = ?;

-- name: tally_new
INSERT INTO tallies VALUES ('waiting', ?, ?)
ON CONFLICT (state, priority) DO UPDATE SET documents = tallies.documents + excluded.documents;

-- name: tallies
SELECT state, priority, documents FROM tallies WHERE documents > 0 ORDER BY state, priority;

-- name: miscounted_tallies
SELECT state, priority, documents FROM tallies WHERE documents <> 0
EXCEPT SELECT state, priority, count(*) FROM documents GROUP BY state, priority;

-- name: last_event
SELECT coalesce(max(seq), 0) FROM events;

-- name: totals
SELECT coalesce(sum(waiting), 0), coalesce(sum(processing), 0), count(*) FROM customers;

-- name: runnable
-- Whether a document may run now or later without anybody's help: paused ones do not count.
SELECT
  EXISTS (SELECT 1 FROM customers WHERE head_rank IS NOT NULL)
  OR EXISTS (SELECT 1 FROM documents WHERE lease_until IS NOT NULL)
  OR EXISTS (SELECT 1 FROM documents d JOIN customers c ON c.id = d.customer
             WHERE d.retry_at IS NOT NULL AND NOT c.paused);

-- name: place_of_document
SELECT d.customer, d.urgent, d.rank, d.seq, c.lift
FROM documents d JOIN customers c ON c.id = d.customer WHERE d.id = ? AND d.queued = 1;

-- name: ahead_in_line
-- Documents of other customers that may run and hold a place before (rank, seq).
SELECT c.name, count(*), sum(d.estimate)
FROM customers c JOIN documents d ON d.customer = c.id
WHERE c.head_rank IS NOT NULL AND c.id <> ?1
  AND d.queued = 1 AND (d.slot_rank, d.slot_seq) < (?2 - c.lift, ?3)
GROUP BY c.id ORDER BY count(*) DESC, c.name;

-- name: ahead_in_customer
-- Documents of the same customer that go before one with this key.
SELECT count(*), coalesce(sum(estimate), 0) FROM documents
WHERE customer = ?1 AND queued = 1
  AND (urgent > ?2 OR (urgent = ?2 AND (rank, seq) < (?3, ?4)));

-- name: nth_slot
SELECT slot_rank, slot_seq FROM documents
WHERE customer = ? AND queued = 1 ORDER BY slot_rank, slot_seq LIMIT 1 OFFSET ?;

-- name: running
SELECT d.started_at, d.estimate, c.name
FROM documents d JOIN customers c ON c.id = d.customer WHERE d.lease_until IS NOT NULL;

-- name: latest_arrivals
SELECT submitted_at, priority, count, estimate FROM documents ORDER BY seq DESC LIMIT 1000;

-- name: latest_costs
-- Of the latest events only: looking for the latest ends among all might take long.
SELECT d.estimate, d.seconds
FROM events e JOIN documents d ON d.seq = e.document
WHERE e.seq > (SELECT max(seq) FROM events) - 5000 AND e.kind = 'done' AND d.seconds IS NOT NULL
ORDER BY e.seq DESC LIMIT 200;

-- name: known_documents
SELECT id FROM documents WHERE id IN (SELECT value FROM json_each(?));

-- name: known_texts
SELECT text_key, markdown_key FROM documents WHERE id IN (SELECT value FROM json_each(?));

-- name: miscounted_customers
-- Customers whose kept numbers differ from the documents: never any, and the doctor looks.
SELECT c.name FROM customers c LEFT JOIN (
  SELECT
    customer, count(*) FILTER (WHERE state = 'waiting') AS waiting,
    count(*) FILTER (WHERE state = 'processing') AS processing
  FROM documents GROUP BY customer) d ON d.customer = c.id
WHERE c.waiting <> coalesce(d.waiting, 0) OR c.processing <> coalesce(d.processing, 0);

-- name: miscounted_accounts
SELECT coalesce(a.name, (SELECT name FROM customers WHERE account = a.id LIMIT 1), CAST(a.id AS TEXT))
FROM accounts a LEFT JOIN (
  SELECT
    account, sum(waiting) AS waiting, sum(processing) AS processing,
    count(head_rank) AS runnable
  FROM customers GROUP BY account) c ON c.account = a.id
WHERE (a.waiting, a.processing, a.runnable)
  <> (coalesce(c.waiting, 0), coalesce(c.processing, 0), coalesce(c.runnable, 0));

-- name: miscounted_line
SELECT 1 FROM line_state
WHERE backlog <> (SELECT coalesce(sum(weight), 0) FROM accounts WHERE runnable > 0)
  OR customers <> (SELECT count(*) FROM customers WHERE head_rank IS NOT NULL);

-- name: misplaced_originals
SELECT count(*) FROM short_originals o LEFT JOIN documents d ON d.seq = o.document
WHERE d.seq IS NULL OR d.size <> length(o.content);

-- name: shares
-- Accounts in the line: the work done for each, with what runs now, and the work due to each.
WITH running AS (
  SELECT c.account, sum(max(0, ?1 - d.started_at)) AS seconds
  FROM documents d JOIN customers c ON c.id = d.customer
  WHERE d.lease_until IS NOT NULL GROUP BY c.account)
SELECT
  coalesce(a.name, (SELECT name FROM customers WHERE account = a.id LIMIT 1)),
  a.done_since + coalesce(r.seconds, 0),
  (?2 - a.ideal_from) * a.weight / 1000.0
FROM accounts a LEFT JOIN running r ON r.account = a.id
WHERE a.runnable > 0;

-- name: lane_use
SELECT lane_work, all_work FROM line_state;

-- name: webhooks_told
SELECT id, kinds FROM webhooks WHERE customer = ? AND enabled = 1;

-- name: count_webhooks
SELECT count(*) FROM webhooks WHERE customer = ?;

-- name: add_webhook
INSERT INTO webhooks (id, customer, url, kinds, secret, created_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: set_webhook
UPDATE webhooks SET url = ?, kinds = ? WHERE id = ?;

-- name: enable_webhook
UPDATE webhooks SET enabled = ?, disabled_because = ?, failing_since = NULL WHERE id = ?;

-- name: disable_webhook
UPDATE webhooks SET enabled = 0, disabled_because = ? WHERE id = ? AND enabled = 1 RETURNING 1;

-- name: remove_webhook
DELETE FROM webhooks WHERE id = ? RETURNING customer;

-- name: remove_deliveries
DELETE FROM deliveries WHERE webhook = ?;

-- name: refresh_webhook
-- After anything of its deliveries changed: when the first of them is due.
UPDATE webhooks SET due_at = (
  SELECT due_at FROM deliveries INDEXED BY deliveries_due
  WHERE webhook = webhooks.id AND due_at IS NOT NULL ORDER BY due_at, seq LIMIT 1)
WHERE id = ?;

-- name: add_delivery
INSERT INTO deliveries (webhook, kind, document, body, created_at, due_at)
VALUES (?, ?, ?, ?, ?, ?) RETURNING seq;

-- name: deliveries_of
SELECT seq, body FROM deliveries INDEXED BY deliveries_of_document WHERE document = ?;

-- name: empty_delivery
UPDATE deliveries SET body = ?, answer = NULL WHERE seq = ?;

-- name: next_delivery_at
SELECT due_at FROM webhooks INDEXED BY webhooks_due
WHERE enabled = 1 AND due_at IS NOT NULL ORDER BY due_at LIMIT 1;

-- name: webhook_due
-- The webhook that has waited longest, but for those that have enough under way.
SELECT w.id FROM webhooks w INDEXED BY webhooks_due JOIN customers c ON c.id = w.customer
WHERE w.enabled = 1 AND w.due_at IS NOT NULL AND w.due_at <= ?1
  AND w.id NOT IN (SELECT value FROM json_each(?2))
  AND c.name NOT IN (SELECT value FROM json_each(?3))
ORDER BY w.due_at LIMIT 1;

-- name: first_delivery_due
SELECT seq FROM deliveries INDEXED BY deliveries_due
WHERE webhook = ? AND due_at IS NOT NULL ORDER BY due_at, seq LIMIT 1;

-- name: claim_delivery
UPDATE deliveries SET fence = fence + 1, attempts = attempts + 1, due_at = ? WHERE seq = ?;

-- name: sending
SELECT 'msg_' || d.webhook || '_' || d.seq, d.fence, w.id, c.name, w.url, w.secret, d.body
FROM deliveries d JOIN webhooks w ON w.id = d.webhook JOIN customers c ON c.id = w.customer
WHERE d.seq = ?;

-- name: held_delivery
SELECT attempts, body FROM deliveries WHERE seq = ? AND fence = ? AND due_at IS NOT NULL;

-- name: settle_delivery
UPDATE deliveries SET
  due_at = ?, delivered = ?, last_at = ?, code = ?, answer = ?, error = ?
WHERE seq = ?;

-- name: note_answer
UPDATE webhooks SET failing_since = CASE WHEN ?2 = 1 THEN NULL ELSE coalesce(failing_since, ?3) END
WHERE id = ?1 RETURNING failing_since;

-- name: resend_delivery
-- A new fence: an attempt under way must not settle what was asked for after it began.
UPDATE deliveries SET fence = fence + 1, due_at = ?, delivered = 0, attempts = 0 WHERE seq = ?;

-- name: forget_deliveries
DELETE FROM deliveries WHERE seq IN (
  SELECT seq FROM deliveries INDEXED BY deliveries_settled
  WHERE due_at IS NULL AND last_at < ? LIMIT ?)
RETURNING 1;
