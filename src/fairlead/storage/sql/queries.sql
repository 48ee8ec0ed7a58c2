-- The named statements of both stores, in SQL that SQLite and PostgreSQL both accept.
-- `?` is a value; a list of values is `IN (SELECT value FROM json_each(?))`, an array in PostgreSQL.
-- INDEXED BY prevents a plan whose cost would grow with the number of documents: in SQLite, such a
-- statement fails without its index instead of slowing down. For PostgreSQL it is removed, and
-- statements for many rows at once have a version of their own.

-- name: select_for_check
-- The customers of submissions, locked until the end of the transaction.
SELECT id, name, account, paused, count, counted_at, day, day_bytes, settings
FROM customers WHERE name IN (SELECT value FROM json_each(?)) ORDER BY id;

-- name: select_customers_by_id
-- The same, by number.
SELECT id, name, account, paused, count, counted_at, day, day_bytes, settings
FROM customers WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id;

-- name: add_customer
-- A new customer; no row if another process was faster.
INSERT INTO customers (name, created_at) VALUES (?, ?) ON CONFLICT (name) DO NOTHING RETURNING id;

-- name: bury_customer
INSERT INTO deleted_customers (name, at) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET at = excluded.at;

-- name: unbury_customer
DELETE FROM deleted_customers WHERE name = ?;

-- name: buried_customers
SELECT name FROM deleted_customers WHERE name IN (SELECT value FROM json_each(?));

-- name: save_check
-- The classic counter and the bytes of the day, after documents were accepted.
UPDATE customers SET count = ?, counted_at = ?, day = ?, day_bytes = ? WHERE id = ?;

-- name: take_numbers
-- Reserves arrival numbers: the last one, or one row for each.
UPDATE document_numbers SET next = next + ? RETURNING next - 1;

-- name: insert_document
-- An accepted document.
INSERT INTO documents (
  seq, id, customer, pipeline, name, size, sha256, state, priority, count, policy, urgent,
  metadata, reference, not_before, batch, submitted_at, estimate, shape, pages, password, parent,
  root, depth)
VALUES (
  ?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_batch
INSERT INTO batches (id, customer, created_at) VALUES (?, ?, ?);

-- name: lock_batches
-- Batches with their customers and ends, locked until the end of the transaction.
SELECT id, customer, finished_at FROM batches
WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id;

-- name: is_batch_pending
SELECT EXISTS (SELECT 1 FROM documents INDEXED BY pending_of_batch
               WHERE batch = ? AND state = 'waiting');

-- name: finish_batch
UPDATE batches SET finished_at = ? WHERE id = ?;

-- name: family_and_batch
SELECT root, batch FROM documents WHERE seq = ?;

-- name: batch
SELECT b.id, c.name, b.created_at, b.finished_at
FROM batches b JOIN customers c ON c.id = b.customer WHERE b.id = ?;

-- name: states_of_batch
SELECT CASE WHEN r.document IS NULL THEN d.state ELSE 'processing' END AS now, count(*)
FROM documents d LEFT JOIN running r ON r.document = d.seq WHERE d.batch = ? GROUP BY now;

-- name: last_pending_of_batch
SELECT id FROM documents INDEXED BY pending_of_batch
WHERE batch = ? AND state = 'waiting' ORDER BY seq DESC LIMIT 1;

-- name: insert_metadata_term
-- A top-level key of a document's metadata with its value.
INSERT INTO metadata_terms (key, value, document, customer) VALUES (?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: set_document_urgent
UPDATE documents SET urgent = ? WHERE seq = ?;

-- name: set_document_metadata
UPDATE documents SET metadata = ? WHERE seq = ?;

-- name: set_document_reference
UPDATE documents SET reference = ? WHERE seq = ?;

-- name: set_delayed_urgent
-- Under fair, the slot follows from the urgency.
UPDATE delayed SET urgent = CAST(?1 AS BIGINT),
  slot = CASE WHEN ?2 = 1 THEN 1 - CAST(?1 AS BIGINT) ELSE slot END
WHERE document = ?3;

-- name: set_running_urgent
UPDATE running SET urgent = CAST(?1 AS BIGINT),
  slot = CASE WHEN ?2 = 1 THEN 1 - CAST(?1 AS BIGINT) ELSE slot END
WHERE document = ?3;

-- name: delete_metadata_terms
DELETE FROM metadata_terms WHERE document = ?;

-- name: insert_waiting
-- A document that waits for a start.
INSERT INTO waiting (
  customer, pipeline, slot, slot_seq, document, priority, urgent, displaced, estimate, submitted_at,
  attempts, suspect, error, detail)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_delayed
-- A document that is not due yet.
INSERT INTO delayed (
  due, customer, pipeline, slot, slot_seq, document, priority, urgent, displaced, estimate,
  submitted_at, attempts, suspect, error, detail)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_running
-- A document that was claimed.
INSERT INTO running (
  customer, pipeline, slot, slot_seq, document, priority, urgent, displaced, estimate, submitted_at,
  attempts, suspect, error, detail, lease, worker, ready, started_at, payer, charge, charge_weight,
  charged_tag, inner_charge, inner_tag)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_original
INSERT INTO originals (document, content) VALUES (?, ?);

-- name: insert_text
-- The text of a document, plain or as Markdown.
INSERT INTO results (document, role, key, sha256, content) VALUES (?, ?, ?, ?, ?);

-- name: insert_result
-- Data or a file of a result.
INSERT INTO results (document, role, name, media_type, size, key, sha256, content)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: results
-- All results of a document, without their bytes.
SELECT r.role, r.name, r.media_type, r.size, r.sha256, r.key
FROM results r JOIN documents d ON d.seq = r.document
WHERE d.id = ? ORDER BY r.role, r.name;

-- name: result_content
SELECT content FROM results
WHERE document = (SELECT seq FROM documents WHERE id = ?) AND role = ? AND name = ?;

-- name: short_data
-- The data of a document's result; no row if they are a blob.
SELECT content FROM results WHERE document = ? AND role = 'data' AND name = '';

-- name: save_interim
-- Nothing where the claim is not the newest of its document.
INSERT INTO interim (document, settled, step, step_attempts, later, body, keys)
SELECT document, ?3, ?4, ?5, ?6, ?7, ?8 FROM running WHERE document = ?1 AND lease = ?2
ON CONFLICT (document) DO UPDATE SET
  settled = excluded.settled, step = excluded.step, step_attempts = excluded.step_attempts,
  later = excluded.later, body = excluded.body, keys = excluded.keys
RETURNING document;

-- name: put_interim
-- For a claim that has just ended.
INSERT INTO interim (document, settled, step, step_attempts, later, body, keys)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (document) DO UPDATE SET
  settled = excluded.settled, step = excluded.step, step_attempts = excluded.step_attempts,
  later = excluded.later, body = excluded.body, keys = excluded.keys;

-- name: forget_interim
DELETE FROM interim WHERE document IN (SELECT value FROM json_each(?));

-- name: put_job_end
INSERT INTO job_ends (document, fence, owner, fingerprint) VALUES (?, ?, ?, ?)
ON CONFLICT (document) DO UPDATE SET
  fence = excluded.fence, owner = excluded.owner, fingerprint = excluded.fingerprint;

-- name: job_end
SELECT owner, fingerprint FROM job_ends
WHERE document = (SELECT seq FROM documents WHERE id = ?) AND fence = ?;

-- name: delete_job_end
DELETE FROM job_ends WHERE document = ?;

-- name: settled_claims
SELECT document, settled FROM interim WHERE document IN (SELECT value FROM json_each(?));

-- name: asking_steps
-- Steps that have asked at least so often to be called again later: their documents, most calls.
SELECT step, count(*), max(later) FROM interim WHERE later >= ? AND step IS NOT NULL
GROUP BY step ORDER BY step;

-- name: interim_keys
-- The keys of the blobs of documents between two steps.
SELECT keys FROM interim WHERE keys <> '[]';

-- name: interim_keys_of
SELECT keys FROM interim WHERE keys <> '[]' AND document IN (
  SELECT seq FROM documents WHERE id IN (SELECT value FROM json_each(?)));

-- name: set_queue
UPDATE documents SET queue = ?, kind = coalesce(?, kind) WHERE seq = ?;

-- name: set_cause
UPDATE documents SET cause = ? WHERE seq = ?;

-- name: cause
-- Why a document failed, or its last attempt did.
SELECT d.cause, i.body FROM documents d LEFT JOIN interim i ON i.document = d.seq WHERE d.id = ?;

-- name: causes
-- Why documents failed.
SELECT id, cause FROM documents
WHERE id IN (SELECT value FROM json_each(?)) AND cause IS NOT NULL;

-- name: add_event
-- An event.
INSERT INTO events (at, kind, customer, document, data, actor) VALUES (?, ?, ?, ?, ?, ?);

-- name: add_queue_event
-- The queue events of one transaction.
INSERT INTO queue_events (body) VALUES (?);

-- name: family_of
-- The number of all attachments of a document, and their bytes.
SELECT count(*), coalesce(sum(size), 0) FROM documents WHERE root = ?;

-- name: lock_documents
-- Documents, locked until the end of the transaction.
SELECT seq FROM documents WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq;

-- name: documents_around
-- The documents around parts that have ended, but for pending ones: their customers, and whether
-- they are parts themselves.
WITH RECURSIVE around (seq) AS (
  SELECT parent FROM documents WHERE seq IN (SELECT value FROM json_each(?)) AND parent IS NOT NULL
  UNION SELECT o.parent FROM around JOIN documents o ON o.seq = around.seq
  WHERE o.parent IS NOT NULL)
SELECT o.seq, o.customer, o.root IS NOT NULL
FROM around JOIN documents o ON o.seq = around.seq
WHERE o.state <> 'waiting' ORDER BY o.seq;

-- name: is_family_pending
-- Whether a part of a document that is not a part itself is pending; the newest ones end last.
SELECT 1 FROM documents INDEXED BY family
WHERE root = ? AND state = 'waiting' ORDER BY seq DESC LIMIT 1;

-- name: is_part_pending
-- Whether a part of a part is pending. BETWEEN as in part_columns.py.
WITH RECURSIVE part (seq, state) AS (
  SELECT seq, state FROM documents WHERE parent = ?
  UNION ALL SELECT p.seq, p.state FROM part
  JOIN documents p ON p.parent BETWEEN part.seq AND part.seq)
SELECT 1 FROM part WHERE state = 'waiting' LIMIT 1;

-- name: find_key
SELECT fingerprint, documents FROM idempotency_keys WHERE customer = ? AND key = ?;

-- name: add_key
INSERT INTO idempotency_keys (customer, key, fingerprint, sender, documents, at)
VALUES (?, ?, ?, ?, ?, ?);

-- name: key_of_another_customer
-- Whether the sender has used the key for another customer.
SELECT 1 FROM idempotency_keys WHERE sender = ? AND key = ? AND customer <> ? LIMIT 1;

-- --- the queue ---

-- name: queue_state
SELECT version, policy, clock, credit, next_ticket, quotas, claims, lane_claims, longest
FROM queue_state;

-- name: policy
SELECT policy FROM queue_state;

-- name: save_queue_state
-- The snapshot makes this fail if another claim has changed the row.
UPDATE queue_state SET
  version = version + 1, policy = ?, clock = ?, credit = ?, next_ticket = ?, quotas = ?, claims = ?,
  lane_claims = ?, longest = ?;

-- name: unfolded_events
-- The queue events since the last claim.
SELECT id, body FROM queue_events ORDER BY id LIMIT ?;

-- name: number_of_events
-- The number of queue events, counted up to a limit.
SELECT count(*) FROM (SELECT 1 FROM queue_events LIMIT ?) AS counted;

-- name: delete_queue_events
DELETE FROM queue_events WHERE id IN (SELECT value FROM json_each(?));

-- name: best_entries
-- The entries with the best places of a pipeline.
SELECT member, class, rank, ticket FROM queue_entries INDEXED BY queue_places
WHERE pipeline = ? AND waits_since IS NOT NULL ORDER BY class, rank, ticket LIMIT ?;

-- name: places_before
-- How many members have a place before this one, and how many are beyond their allowance, not
-- counting the given members.
SELECT
  count(DISTINCT CASE WHEN (class, rank, ticket) < (?1, ?2, ?3) THEN member END),
  count(DISTINCT CASE WHEN class = 1 THEN member END)
FROM queue_entries INDEXED BY queue_places
WHERE waits_since IS NOT NULL AND member NOT IN (SELECT value FROM json_each(?4));

-- name: overdue_entries
-- The entries with the longest waits that began before a time.
SELECT member, waits_since, tie FROM queue_entries INDEXED BY queue_waits
WHERE pipeline = ? AND waits_since IS NOT NULL AND waits_since < ?
ORDER BY waits_since, tie LIMIT ?;

-- name: number_of_entries
-- The number of members with documents of these pipelines that may run.
SELECT count(DISTINCT member) FROM queue_entries
WHERE waits_since IS NOT NULL AND pipeline IN (SELECT value FROM json_each(?));

-- name: members
SELECT
  id, account, paused, cap, processing, delayed, last_started_at, weight, interval, debt, debt_at,
  tag, queued, tagged, work, work_at, inner_clock, resumed_at, told_of
FROM queue_members WHERE id IN (SELECT value FROM json_each(?));

-- name: entries
-- The entries of members.
SELECT
  member, pipeline, waiting, head, head_seq, oldest_seq, oldest_at, has_ahead, class, rank, ticket,
  waits_since, tie
FROM queue_entries WHERE member IN (SELECT value FROM json_each(?));

-- name: ids_of_accounts
-- Shared accounts, and the customers inside them.
SELECT id FROM queue_members
WHERE id IN (SELECT value FROM json_each(?1)) OR account IN (SELECT value FROM json_each(?1));

-- name: all_members
SELECT
  id, account, paused, cap, processing, delayed, last_started_at, weight, interval, debt, debt_at,
  tag, queued, tagged, work, work_at, inner_clock, resumed_at, told_of
FROM queue_members;

-- name: all_entries
SELECT
  member, pipeline, waiting, head, head_seq, oldest_seq, oldest_at, has_ahead, class, rank, ticket,
  waits_since, tie
FROM queue_entries;

-- name: save_member
INSERT INTO queue_members (
  id, account, paused, cap, processing, delayed, last_started_at, weight, interval, debt, debt_at,
  tag, queued, tagged, work, work_at, inner_clock, resumed_at, told_of)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
  account = excluded.account, paused = excluded.paused, cap = excluded.cap,
  processing = excluded.processing, delayed = excluded.delayed,
  last_started_at = excluded.last_started_at, weight = excluded.weight,
  interval = excluded.interval, debt = excluded.debt, debt_at = excluded.debt_at,
  tag = excluded.tag, queued = excluded.queued, tagged = excluded.tagged, work = excluded.work,
  work_at = excluded.work_at, inner_clock = excluded.inner_clock,
  resumed_at = excluded.resumed_at, told_of = excluded.told_of;

-- name: save_entry
INSERT INTO queue_entries (
  member, pipeline, waiting, head, head_seq, oldest_seq, oldest_at, has_ahead, class, rank, ticket,
  waits_since, tie)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (member, pipeline) DO UPDATE SET
  waiting = excluded.waiting, head = excluded.head, head_seq = excluded.head_seq,
  oldest_seq = excluded.oldest_seq, oldest_at = excluded.oldest_at, has_ahead = excluded.has_ahead,
  class = excluded.class,
  rank = excluded.rank, ticket = excluded.ticket, waits_since = excluded.waits_since,
  tie = excluded.tie;

-- name: save_tally
INSERT INTO queue_tallies (state, priority, documents) VALUES (?, ?, ?)
ON CONFLICT (state, priority) DO UPDATE SET
  documents = queue_tallies.documents + excluded.documents;

-- name: save_cost
INSERT INTO queue_costs (shape, by, doublings, documents, seconds) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (shape, by, doublings) DO UPDATE SET
  documents = excluded.documents, seconds = excluded.seconds;

-- name: cost_row
SELECT documents, seconds FROM queue_costs WHERE shape = ? AND by = ? AND doublings = ?;

-- name: cost_rows
SELECT doublings, documents, seconds FROM queue_costs WHERE shape = ? AND by = ?;

-- name: waiting_by_slot
-- The documents of an entry with the best slots.
SELECT
  customer, pipeline, slot, slot_seq, document, priority, urgent, displaced, estimate, submitted_at,
  attempts, suspect, error, detail
FROM waiting WHERE customer = ? AND pipeline = ?
ORDER BY customer, pipeline, slot, slot_seq, document LIMIT ?;

-- name: waiting_by_age
-- The oldest documents of an entry.
SELECT
  customer, pipeline, slot, slot_seq, document, priority, urgent, displaced, estimate, submitted_at,
  attempts, suspect, error, detail
FROM waiting INDEXED BY waiting_by_age WHERE customer = ? AND pipeline = ?
ORDER BY customer, pipeline, document LIMIT ?;

-- name: oldest_waiting
-- The oldest document of an entry.
SELECT customer, pipeline, document, submitted_at
FROM waiting INDEXED BY waiting_by_age WHERE customer = ? AND pipeline = ?
ORDER BY customer, pipeline, document LIMIT 1;

-- name: waiting_ahead
-- Under classic, the documents of an entry that go before the one in its best slot.
SELECT
  customer, pipeline, slot, slot_seq, document, priority, urgent, displaced, estimate, submitted_at,
  attempts, suspect, error, detail
FROM waiting INDEXED BY waiting_ahead
WHERE customer = ? AND pipeline = ? AND (urgent = 1 OR displaced = 1)
ORDER BY urgent DESC, priority, document LIMIT ?;

-- name: delete_waiting
DELETE FROM waiting
WHERE customer = ? AND pipeline = ? AND slot = ? AND slot_seq = ? AND document = ?;

-- name: move_slot
-- After a swap of slots.
UPDATE waiting SET slot = ?6, slot_seq = ?7, displaced = 1
WHERE customer = ?1 AND pipeline = ?2 AND slot = ?3 AND slot_seq = ?4 AND document = ?5;

-- name: due_documents
-- Delayed documents that are due.
SELECT
  customer, pipeline, slot, slot_seq, document, priority, urgent, displaced, estimate, submitted_at,
  attempts, suspect, error, detail
FROM delayed WHERE due <= ? ORDER BY due, document LIMIT 500;

-- name: delete_delayed
DELETE FROM delayed WHERE document = ?;

-- name: claimed_documents
-- The columns of claimed documents for their workers.
SELECT
  d.seq, d.id, c.name, d.name, d.size, d.sha256, d.depth, d.password,
  d.metadata, d.facts IS NOT NULL,
  (SELECT body FROM interim WHERE document = d.seq),
  (SELECT content FROM originals WHERE document = d.seq)
FROM documents d JOIN customers c ON c.id = d.customer
WHERE d.seq IN (SELECT value FROM json_each(?));

-- name: held_claim
-- A current claim, by its document and fence.
SELECT
  d.seq, d.id, c.name, d.name, d.size, d.sha256, d.depth, d.password,
  d.metadata, d.facts IS NOT NULL,
  (SELECT body FROM interim WHERE document = d.seq),
  (SELECT content FROM originals WHERE document = d.seq),
  r.worker, r.lease, r.pipeline, r.priority, r.submitted_at, r.started_at, r.attempts, r.error
FROM running r JOIN documents d ON d.seq = r.document JOIN customers c ON c.id = d.customer
WHERE d.id = ? AND r.lease = ?;

-- name: add_lease
INSERT INTO leases (id, worker, until) VALUES (?, ?, ?);

-- name: renew_leases
UPDATE leases SET until = ? WHERE id IN (SELECT value FROM json_each(?));

-- name: held_claims
-- Those of the documents that are being processed, with their fences.
SELECT document, lease FROM running WHERE document IN (SELECT value FROM json_each(?));

-- name: take_running
-- Removes a claim that ends; no row if it is not the newest of its document.
DELETE FROM running WHERE document = ? AND lease = ?
RETURNING
  customer, pipeline, slot, slot_seq, document, priority, urgent, displaced, estimate, submitted_at,
  attempts, suspect, error, detail, lease, worker, ready, started_at, payer, charge, charge_weight,
  charged_tag, inner_charge, inner_tag;

-- name: take_expired_leases
-- Removes leases that ended, unless they are being renewed.
DELETE FROM leases WHERE id IN (
  SELECT id FROM leases WHERE until < ? ORDER BY until LIMIT 500)
RETURNING id;

-- name: take_leases_of
-- Removes the leases of a worker that is known to be gone.
DELETE FROM leases WHERE worker = ? RETURNING id;

-- name: has_expired
SELECT EXISTS (SELECT 1 FROM leases WHERE until < ?);

-- name: claims_of_leases
SELECT document, lease FROM running WHERE lease IN (SELECT value FROM json_each(?)) ORDER BY document;

-- name: claims_of_workers
SELECT document, lease FROM running WHERE worker IN (SELECT value FROM json_each(?)) ORDER BY document;

-- name: lease_holders
SELECT DISTINCT worker FROM running;

-- name: attend
INSERT INTO attendance (engine, workers, until, pipelines, steps) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (engine) DO UPDATE SET workers = ?2, until = ?3, pipelines = ?4, steps = ?5;

-- name: engines
-- The reports of engines whose attendance has not ended.
SELECT engine, workers, pipelines, steps FROM attendance WHERE until > ? ORDER BY engine;

-- name: served_pipelines
SELECT pipelines FROM attendance WHERE until > ? AND workers > 0;

-- name: waiting_pipelines
-- The pipelines with waiting documents.
SELECT DISTINCT pipeline FROM waiting;

-- name: leave
DELETE FROM attendance WHERE engine = ? OR until <= ?;

-- name: workers
-- Those of engines; a program that pulls documents is no worker.
SELECT coalesce(sum(workers), 0) FROM attendance WHERE until > ? AND substr(engine, 1, 5) <> 'pull:';

-- --- ends ---

-- name: ending_documents
-- The columns of documents that end.
SELECT seq, shape, pages, size, root, depth, metadata, batch, facts IS NOT NULL FROM documents
WHERE seq IN (SELECT value FROM json_each(?));

-- name: finish_document
UPDATE documents SET
  state = 'done', kind = ?2, facts = ?3, files = ?4, seconds = ?5, started_at = ?6, finished_at = ?7,
  attempts = ?8, password = NULL
WHERE seq = ?1;

-- name: fail_document
UPDATE documents SET
  state = 'failed', kind = coalesce(?2, kind), error = ?3, detail = ?4, step = ?5, step_attempt = ?6,
  seconds = ?7, started_at = ?8, finished_at = ?9, attempts = ?10, password = NULL
WHERE seq = ?1;

-- name: cancel_document
UPDATE documents SET
  state = 'cancelled', started_at = ?2, finished_at = ?3, attempts = ?4, error = ?5, detail = ?6,
  password = NULL
WHERE seq = ?1;

-- name: add_retry_slot
INSERT INTO retry_slots (document, customer, slot, slot_seq, displaced) VALUES (?, ?, ?, ?, ?);

-- name: take_retry_slot
DELETE FROM retry_slots WHERE document = ? RETURNING slot, slot_seq, displaced;

-- name: find_document
SELECT
  seq, customer, coalesce(queue, pipeline), state, priority, urgent, estimate, submitted_at, batch,
  root
FROM documents WHERE id = ?;

-- name: state_of_document
SELECT state FROM documents WHERE seq = ?;

-- name: slot_of_document
SELECT slot, slot_seq FROM waiting INDEXED BY waiting_by_age
WHERE customer = ? AND pipeline = ? AND document = ?;

-- name: take_waiting
-- Removes a document from the queue; no row if it does not wait.
DELETE FROM waiting WHERE customer = ?1 AND document = ?2
  AND pipeline = (SELECT coalesce(queue, pipeline) FROM documents WHERE seq = ?2)
RETURNING
  customer, pipeline, slot, slot_seq, document, priority, urgent, displaced, estimate, submitted_at,
  attempts, suspect, error, detail;

-- name: take_delayed
DELETE FROM delayed WHERE document = ?
RETURNING
  customer, pipeline, slot, slot_seq, document, priority, urgent, displaced, estimate, submitted_at,
  attempts, suspect, error, detail;

-- name: take_claim
-- Removes the claim of a document.
DELETE FROM running WHERE document = ?
RETURNING
  customer, pipeline, slot, slot_seq, document, priority, urgent, displaced, estimate, submitted_at,
  attempts, suspect, error, detail, lease, worker, ready, started_at, payer, charge, charge_weight,
  charged_tag, inner_charge, inner_tag;

-- name: retry_document
-- Queues an ended document again; no row if another transaction was faster. Its result stays until
-- it is done again.
UPDATE documents SET
  state = 'waiting', attempts = 0, started_at = NULL, finished_at = NULL, seconds = NULL,
  error = NULL, detail = NULL, cause = NULL, step = NULL, step_attempt = NULL, queue = NULL,
  password = ?2
WHERE seq = ?1 AND state <> 'waiting' RETURNING seq;

-- name: bury_document
INSERT INTO deleted (seq, id, customer, at) VALUES (?, ?, ?, ?);

-- name: delete_results
DELETE FROM results WHERE document IN (SELECT value FROM json_each(?));

-- name: parts_of_document
SELECT name, sha256 FROM documents WHERE parent = ?;

-- name: delete_original
DELETE FROM originals WHERE document = ?;

-- name: delete_document
-- Nothing where it is pending.
DELETE FROM documents WHERE seq = ? AND state <> 'waiting' RETURNING state, priority;

-- name: take_results
DELETE FROM results WHERE document = ? RETURNING key;

-- name: find_deleted
SELECT 1 FROM deleted WHERE id = ?;

-- name: deleted_customer
SELECT c.name FROM deleted x JOIN customers c ON c.id = x.customer WHERE x.id = ?;

-- name: seq_of_document
SELECT seq FROM (
  SELECT seq, id FROM documents UNION ALL SELECT seq, id FROM deleted) AS known WHERE id = ?

-- name: walk_in_order
-- Runs before a list that an index has in order. It only matters for PostgreSQL: SQLite has INDEXED BY.
SELECT 1 AS in_order;

-- name: before_document
d.seq < (SELECT seq FROM (
  SELECT seq, id FROM documents UNION ALL SELECT seq, id FROM deleted) AS known WHERE id = ?)

-- --- customers and accounts ---

-- name: lock_customer
SELECT id, name, account, paused, count, counted_at, day, day_bytes, settings
FROM customers WHERE name = ?;

-- name: customer_id
SELECT id FROM customers WHERE name = ?;

-- name: customer_names
SELECT id, name FROM customers;

-- name: set_paused
UPDATE customers SET paused = ?1 WHERE id = ?2 AND paused <> ?1 RETURNING 1;

-- name: set_customer
UPDATE customers SET settings = ?, account = ? WHERE id = ?;

-- name: reset_customer
UPDATE customers SET count = NULL, counted_at = NULL WHERE id = ?;

-- name: has_documents
SELECT EXISTS (SELECT 1 FROM documents WHERE customer = ?);

-- name: valid_keys_of_customer
SELECT id FROM access_keys WHERE customer = ? AND revoked_at IS NULL;

-- name: webhooks_of_customer
SELECT id FROM webhooks WHERE customer = ?;

-- name: delete_keys_of_customer
DELETE FROM access_keys WHERE customer = ?;

-- name: delete_idempotency_keys
DELETE FROM idempotency_keys WHERE customer = ?;

-- name: forget_deleted_documents
DELETE FROM deleted WHERE customer = ?;

-- name: delete_batches
DELETE FROM batches WHERE customer = ?;

-- name: empty_events
-- Removes the data of a customer's events; the events stay.
UPDATE events SET data = NULL WHERE customer = ?;

-- name: delete_customer
DELETE FROM customers WHERE id = ?;

-- name: find_account
SELECT id, weight FROM accounts WHERE name = ?;

-- name: account_weight
SELECT weight FROM accounts WHERE id = ?;

-- name: account_names
SELECT id, name FROM accounts;

-- name: add_account
INSERT INTO accounts (name, weight) VALUES (?, ?) RETURNING id;

-- name: set_weight
UPDATE accounts SET weight = ? WHERE id = ?;

-- --- switching the policy ---

-- name: rewrite_slots
-- After a policy switch: slots of the new policy, and no document is displaced.
UPDATE waiting SET
  slot = CASE WHEN ?1 = 'classic' THEN priority WHEN urgent = 1 THEN 0 ELSE 1 END,
  slot_seq = document, displaced = 0;

-- name: rewrite_delayed_slots
UPDATE delayed SET
  slot = CASE WHEN ?1 = 'classic' THEN priority WHEN urgent = 1 THEN 0 ELSE 1 END,
  slot_seq = document, displaced = 0;

-- name: rewrite_running_slots
-- Without charges, so that the ends of these attempts correct nothing.
UPDATE running SET
  slot = CASE WHEN ?1 = 'classic' THEN priority WHEN urgent = 1 THEN 0 ELSE 1 END,
  slot_seq = document, displaced = 0, charge = NULL, inner_charge = NULL;

-- name: forget_slots
UPDATE retry_slots SET slot = NULL, slot_seq = NULL, displaced = 0;

-- name: classic_records
SELECT id, count, counted_at, settings FROM customers;

-- name: customers_with_documents
-- Customers with a counter or documents; others begin with their first document.
SELECT id FROM customers c
WHERE count IS NOT NULL OR EXISTS (SELECT 1 FROM documents WHERE customer = c.id);

-- name: save_counter
UPDATE customers SET count = ?, counted_at = ? WHERE id = ?;

-- --- keys ---

-- name: add_access_key
INSERT INTO access_keys (id, role, customer, name, sha256, created_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: access_key_sha256
SELECT sha256 FROM access_keys WHERE id = ?;

-- name: valid_keys
SELECT id FROM access_keys
WHERE id IN (SELECT value FROM json_each(?)) AND revoked_at IS NULL
  AND (expires_at IS NULL OR expires_at > ?);

-- name: owner_of_key
SELECT customer FROM access_keys WHERE id = ? AND customer IS NOT NULL;

-- name: revoke_access_key
UPDATE access_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL RETURNING customer;

-- --- reads ---

-- name: original
SELECT content FROM originals WHERE document = (SELECT seq FROM documents WHERE id = ?);

-- name: stored_document
SELECT
  t.key, t.sha256, m.key, m.sha256, (SELECT due FROM delayed WHERE document = d.seq), d.depth,
  coalesce(d.queue, d.pipeline),
  coalesce((SELECT later FROM interim WHERE document = d.seq), 0)
FROM documents d
  LEFT JOIN results t ON t.document = d.seq AND t.role = 'text' AND t.name = ''
  LEFT JOIN results m ON m.document = d.seq AND m.role = 'markdown' AND m.name = ''
WHERE d.id = ?;

-- name: tallies
SELECT state, priority, documents FROM queue_tallies WHERE documents <> 0;

-- name: counted_tallies
-- Counted from the documents, for the doctor.
SELECT
  CASE WHEN r.document IS NULL THEN d.state ELSE 'processing' END AS now, d.priority, count(*)
FROM documents d LEFT JOIN running r ON r.document = d.seq GROUP BY now, d.priority;

-- name: counted_pending
-- Counted from the rows of the queue, for the doctor.
SELECT customer, sum(waiting), sum(processing) FROM (
  SELECT customer, count(*) AS waiting, 0 AS processing FROM waiting GROUP BY customer
  UNION ALL SELECT customer, count(*), 0 FROM delayed GROUP BY customer
  UNION ALL SELECT customer, 0, count(*) FROM running GROUP BY customer) AS pending
GROUP BY customer;

-- name: pending_rows
-- Pending documents that are not exactly once in the queue, for the doctor.
SELECT count(*) FROM documents d
WHERE (d.state = 'waiting') <> (1 = (
  (SELECT count(*) FROM waiting w
   WHERE w.customer = d.customer AND w.pipeline = coalesce(d.queue, d.pipeline) AND w.document = d.seq)
  + (SELECT count(*) FROM delayed y WHERE y.document = d.seq)
  + (SELECT count(*) FROM running r WHERE r.document = d.seq)));

-- name: misplaced_originals
SELECT count(*) FROM originals o LEFT JOIN documents d ON d.seq = o.document
WHERE d.seq IS NULL OR d.size <> length(o.content);

-- name: misplaced_results
SELECT count(*) FROM results r LEFT JOIN documents d ON d.seq = r.document WHERE d.seq IS NULL;

-- name: last_event
SELECT coalesce(max(seq), 0) FROM events;

-- name: ends
-- Ends of documents in order of completion; for a document that ended several times, the last end.
SELECT e.seq, e.document FROM events e INDEXED BY ends JOIN documents d ON d.seq = e.document
WHERE e.kind IN ('done', 'failed', 'cancelled') AND e.seq > ? AND e.seq <= ?
  AND d.finished_at = e.at AND d.state = e.kind
ORDER BY e.seq LIMIT ?;

-- name: ends_of_customer
SELECT e.seq, e.document FROM events e INDEXED BY ends_of_customer
  JOIN documents d ON d.seq = e.document
WHERE e.customer = (SELECT id FROM customers WHERE name = ?)
  AND e.kind IN ('done', 'failed', 'cancelled') AND e.seq > ? AND e.seq <= ?
  AND d.finished_at = e.at AND d.state = e.kind
ORDER BY e.seq LIMIT ?;

-- name: results_of
-- The results of documents, by role.
SELECT d.id, t.role, t.key, t.sha256, t.content
FROM documents d JOIN results t ON t.document = d.seq
WHERE d.id IN (SELECT value FROM json_each(?)) AND t.name = ''
  AND t.role IN (SELECT value FROM json_each(?));

-- name: add_usage
INSERT INTO usage (customer, day, documents, pages, ocr_pages, bytes, seconds, failures)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: usage
SELECT
  c.name, u.day, CAST(sum(u.documents) AS BIGINT), CAST(sum(u.pages) AS BIGINT),
  CAST(sum(u.ocr_pages) AS BIGINT), CAST(sum(u.bytes) AS BIGINT), sum(u.seconds),
  CAST(sum(u.failures) AS BIGINT)
FROM usage u LEFT JOIN customers c ON c.id = u.customer
WHERE u.day >= ? AND u.day <= ?
GROUP BY u.customer, c.name, u.day ORDER BY u.day, c.name, u.customer;

-- name: usage_of_customer
SELECT
  c.name, u.day, CAST(sum(u.documents) AS BIGINT), CAST(sum(u.pages) AS BIGINT),
  CAST(sum(u.ocr_pages) AS BIGINT), CAST(sum(u.bytes) AS BIGINT), sum(u.seconds),
  CAST(sum(u.failures) AS BIGINT)
FROM usage u INDEXED BY usage_of_customer JOIN customers c ON c.id = u.customer
WHERE u.customer = (SELECT id FROM customers WHERE name = ?) AND u.day >= ? AND u.day <= ?
GROUP BY u.customer, c.name, u.day ORDER BY u.day;

-- name: take_usage
-- Removes rows of days with several rows, which are added up; rows of one day come together.
DELETE FROM usage WHERE id IN (
  SELECT u.id FROM usage u JOIN (
    SELECT customer, day FROM usage GROUP BY customer, day HAVING count(*) > 1) AS several
  ON several.customer = u.customer AND several.day = u.day
  ORDER BY u.customer, u.day LIMIT ?)
RETURNING customer, day, documents, pages, ocr_pages, bytes, seconds, failures;

-- name: number_of_customers
SELECT count(*) FROM customers;

-- name: running_documents
SELECT started_at, estimate FROM running;

-- name: running_claims
SELECT document, customer, pipeline, estimate, started_at, submitted_at FROM running;

-- name: running_customers
SELECT DISTINCT customer FROM running;

-- name: latest_checks
SELECT d.submitted_at, d.count, d.priority FROM documents d INDEXED BY documents_of_customer
WHERE d.customer = (SELECT id FROM customers WHERE name = ?) ORDER BY d.seq DESC LIMIT ?;

-- name: latest_arrivals
-- Of customers that may start documents, with their counters and own settings.
SELECT d.submitted_at, d.priority, d.count, d.estimate, d.customer, d.pipeline,
  c.count, c.counted_at, c.settings
FROM documents d JOIN customers c ON c.id = d.customer
WHERE d.seq > (SELECT max(seq) FROM documents) - 1000 AND c.paused = 0 ORDER BY d.seq DESC;

-- name: latest_claims
-- Begins and ends of claims, from the latest events only: a search among all might take long.
SELECT e.at, e.kind, e.document, e.data, d.pipeline, d.queue, d.estimate, d.submitted_at
FROM events e JOIN documents d ON d.seq = e.document
WHERE e.seq > (SELECT max(seq) FROM events) - 4000
  AND e.kind IN ('claimed', 'done', 'failed', 'cancelled', 'requeued', 'released')
ORDER BY e.seq;

-- name: latest_ended
-- Of those that arrived last. Needed where the latest events are those of a large submission.
SELECT coalesce(queue, pipeline), estimate, started_at, finished_at FROM documents
WHERE state = 'done' AND started_at IS NOT NULL ORDER BY seq DESC LIMIT 200;

-- name: caps
SELECT id, cap FROM queue_members WHERE cap IS NOT NULL;

-- name: pending_of_pipelines
SELECT pipeline, sum(waiting), sum(processing) FROM (
  SELECT pipeline, count(*) AS waiting, 0 AS processing FROM waiting GROUP BY pipeline
  UNION ALL SELECT pipeline, count(*), 0 FROM delayed GROUP BY pipeline
  UNION ALL SELECT pipeline, 0, count(*) FROM running GROUP BY pipeline) AS pending
GROUP BY pipeline;

-- name: ended_lately
-- From the latest events only: a search for a full hour might take long.
SELECT d.pipeline, d.error, count(*), min(e.at)
FROM events e JOIN documents d ON d.seq = e.document
WHERE e.seq > (SELECT max(seq) FROM events) - 20000
  AND e.kind IN ('done', 'failed') AND e.at >= ?
GROUP BY d.pipeline, d.error ORDER BY d.pipeline, count(*) DESC, d.error;

-- name: known_documents
SELECT id FROM documents WHERE id IN (SELECT value FROM json_each(?));

-- name: known_texts
SELECT key FROM results WHERE key IS NOT NULL AND document IN (
  SELECT seq FROM documents WHERE id IN (SELECT value FROM json_each(?)));

-- name: enabled_webhooks
-- The enabled webhooks of these customers, and the webhooks for all customers.
SELECT customer, id, kinds FROM webhooks
WHERE customer IN (SELECT value FROM json_each(?)) AND enabled = 1
UNION ALL SELECT customer, id, kinds FROM webhooks WHERE customer IS NULL AND enabled = 1;

-- name: count_webhooks
SELECT count(*) FROM webhooks WHERE customer IS NOT DISTINCT FROM ?;

-- name: add_webhook
INSERT INTO webhooks (id, customer, url, kinds, secret, created_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: set_webhook
UPDATE webhooks SET url = ?, kinds = ? WHERE id = ?;

-- name: enable_webhook
UPDATE webhooks SET enabled = ?, disabled_because = ?, failing_since = NULL WHERE id = ?;

-- name: disable_webhook
UPDATE webhooks SET enabled = 0, disabled_because = ? WHERE id = ? AND enabled = 1 RETURNING 1;

-- name: remove_webhook
DELETE FROM webhooks WHERE id = ? RETURNING coalesce(customer, 0);

-- name: remove_deliveries
DELETE FROM deliveries WHERE webhook = ?;

-- name: lock_webhook
SELECT id FROM webhooks WHERE id = ?;

-- name: refresh_webhook
-- After a change of its deliveries: when the first of them is due.
UPDATE webhooks SET due_at = (
  SELECT due_at FROM deliveries INDEXED BY deliveries_due
  WHERE webhook = webhooks.id AND due_at IS NOT NULL ORDER BY due_at, seq LIMIT 1)
WHERE id = ?;

-- name: add_delivery
INSERT INTO deliveries (webhook, kind, document, body, created_at, due_at)
VALUES (?, ?, ?, ?, ?, ?) RETURNING seq;

-- name: deliveries_of
SELECT seq, body FROM deliveries INDEXED BY deliveries_of_document WHERE document = ?;

-- name: deliveries_of_parts
-- Deliveries about the parts of a document, at all depths.
WITH RECURSIVE part (seq, id) AS (
  SELECT seq, id FROM documents WHERE parent = ?
  UNION ALL SELECT p.seq, p.id FROM part
  JOIN documents p ON p.parent BETWEEN part.seq AND part.seq)
SELECT y.seq, y.body
FROM part JOIN deliveries y INDEXED BY deliveries_of_document ON y.document = part.id;

-- name: deliveries_with
-- Deliveries of webhooks for all customers, with a text in their body.
SELECT d.seq, d.body FROM webhooks w JOIN deliveries d ON d.webhook = w.id
WHERE w.customer IS NULL AND d.body LIKE ? ESCAPE '!';

-- name: empty_delivery
UPDATE deliveries SET body = ?, answer = NULL WHERE seq = ?;

-- name: next_delivery_at
SELECT due_at FROM webhooks INDEXED BY webhooks_due
WHERE enabled = 1 AND due_at IS NOT NULL ORDER BY due_at LIMIT 1;

-- name: webhook_due
-- The webhook that has waited longest, except for these webhooks and customers.
SELECT w.id FROM webhooks w INDEXED BY webhooks_due LEFT JOIN customers c ON c.id = w.customer
WHERE w.enabled = 1 AND w.due_at IS NOT NULL AND w.due_at <= ?1
  AND w.id NOT IN (SELECT value FROM json_each(?2))
  AND coalesce(c.name, '') NOT IN (SELECT value FROM json_each(?3))
ORDER BY w.due_at LIMIT 1;

-- name: first_delivery_due
SELECT seq FROM deliveries INDEXED BY deliveries_due
WHERE webhook = ? AND due_at <= ? ORDER BY due_at, seq LIMIT 1;

-- name: claim_delivery
UPDATE deliveries SET fence = fence + 1, attempts = attempts + 1, due_at = ? WHERE seq = ?;

-- name: sending
SELECT
  'msg_' || d.webhook || '_' || d.seq, d.fence, w.id, coalesce(c.name, ''), w.url, w.secret, d.body
FROM deliveries d JOIN webhooks w ON w.id = d.webhook LEFT JOIN customers c ON c.id = w.customer
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
-- With a new fence: a running attempt must not settle a delivery that was resent after it began.
UPDATE deliveries SET fence = fence + 1, due_at = ?, delivered = 0, attempts = 0 WHERE seq = ?;

-- name: forget_deliveries
DELETE FROM deliveries WHERE seq IN (
  SELECT seq FROM deliveries INDEXED BY deliveries_settled
  WHERE due_at IS NULL AND last_at < ? LIMIT ?)
RETURNING 1;

-- name: is_busy
-- Whether a document may run now or soon without an operator. Documents of paused customers and those
-- submitted for a later time do not count.
SELECT
  EXISTS (SELECT 1 FROM running)
  OR EXISTS (SELECT 1 FROM customers c WHERE c.paused = 0 AND (
    EXISTS (SELECT 1 FROM waiting w WHERE w.customer = c.id)))
  OR EXISTS (SELECT 1 FROM delayed y JOIN customers c ON c.id = y.customer
    WHERE c.paused = 0 AND (y.attempts > 0 OR y.due <= ?));

-- name: is_busy_with
-- The same for some pipelines: others wait for a worker that serves them.
SELECT
  EXISTS (SELECT 1 FROM running)
  OR EXISTS (SELECT 1 FROM customers c WHERE c.paused = 0 AND EXISTS (
    SELECT 1 FROM waiting w WHERE w.customer = c.id
      AND w.pipeline IN (SELECT value FROM json_each(?2))))
  OR EXISTS (SELECT 1 FROM delayed y JOIN customers c ON c.id = y.customer
    WHERE c.paused = 0 AND (y.attempts > 0 OR y.due <= ?1)
      AND y.pipeline IN (SELECT value FROM json_each(?2)));

-- name: waiting_before
-- Documents of an entry before this slot.
SELECT count(*), coalesce(sum(estimate), 0) FROM waiting
WHERE customer = ? AND pipeline = ? AND (slot, slot_seq) < (?, ?);

-- name: waiting_of_others
-- How many documents of these pipelines may start, of customers that are not among these members.
SELECT coalesce(sum(waiting), 0) FROM queue_entries
WHERE pipeline IN (SELECT value FROM json_each(?1)) AND class IS NOT NULL
  AND member > 0 AND member NOT IN (SELECT value FROM json_each(?2));

-- name: last_waiting
-- The last document of an entry.
SELECT d.id FROM waiting w JOIN documents d ON d.seq = w.document
WHERE w.customer = ? AND w.pipeline = ?
ORDER BY w.slot DESC, w.slot_seq DESC LIMIT 1;

-- name: blob_place
SELECT installation, marked FROM blob_places WHERE place = ?;

-- name: add_blob_place
-- The first place gives the installation its id.
INSERT INTO blob_places
SELECT ?1, coalesce((SELECT min(installation) FROM blob_places), ?2), 0
ON CONFLICT DO NOTHING;

-- name: note_marked
UPDATE blob_places SET marked = 1 WHERE place = ?;

-- name: names_of_customers
SELECT id, name FROM customers WHERE id IN (SELECT value FROM json_each(?));
