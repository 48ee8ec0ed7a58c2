-- PostgreSQL's own versions of shared statements. Those with unnest take many rows at once: each value
-- is an array with an element per row.

-- name: select_for_check
-- FOR UPDATE: submissions of one customer wait for each other, others do not.
SELECT id, name, account, paused, count, counted_at, day, day_bytes, settings
FROM customers WHERE name = ANY(?) ORDER BY id FOR UPDATE;

-- name: select_customers_by_id
SELECT id, name, account, paused, count, counted_at, day, day_bytes, settings
FROM customers WHERE id = ANY(?) ORDER BY id FOR UPDATE;

-- name: lock_customer
SELECT id, name, account, paused, count, counted_at, day, day_bytes, settings
FROM customers WHERE name = ? FOR UPDATE;

-- name: lock_batches
SELECT id, customer, finished_at FROM batches WHERE id = ANY(?) ORDER BY id FOR UPDATE;

-- name: lock_documents
SELECT seq FROM documents WHERE seq = ANY(?) ORDER BY seq FOR UPDATE;

-- name: lock_webhook
SELECT id FROM webhooks WHERE id = ? FOR UPDATE;

-- name: take_numbers
SELECT nextval('document_numbers') FROM generate_series(1, ?);

-- name: take_expired_leases
-- SKIP LOCKED: leases that are being renewed stay.
DELETE FROM leases WHERE id = ANY(ARRAY(
  SELECT id FROM leases WHERE until < ? ORDER BY until LIMIT 500 FOR UPDATE SKIP LOCKED))
RETURNING id;

-- name: waiting_by_slot
SELECT w.* FROM unnest(?::bigint[], ?::text[], ?::bigint[]) AS e (customer, pipeline, depth)
CROSS JOIN LATERAL (
  SELECT
    customer, pipeline, slot, slot_seq, document, priority, urgent, displaced, estimate,
    submitted_at, attempts, suspect, error, detail
  FROM waiting WHERE customer = e.customer AND pipeline = e.pipeline
  ORDER BY slot, slot_seq, document LIMIT e.depth) AS w;

-- name: waiting_by_age
SELECT w.* FROM unnest(?::bigint[], ?::text[], ?::bigint[]) AS e (customer, pipeline, depth)
CROSS JOIN LATERAL (
  SELECT
    customer, pipeline, slot, slot_seq, document, priority, urgent, displaced, estimate,
    submitted_at, attempts, suspect, error, detail
  FROM waiting WHERE customer = e.customer AND pipeline = e.pipeline
  ORDER BY document LIMIT e.depth) AS w;

-- name: oldest_waiting
SELECT w.* FROM unnest(?::bigint[], ?::text[]) AS e (customer, pipeline)
CROSS JOIN LATERAL (
  SELECT customer, pipeline, document, submitted_at
  FROM waiting WHERE customer = e.customer AND pipeline = e.pipeline
  ORDER BY document LIMIT 1) AS w;

-- name: waiting_ahead
SELECT w.* FROM unnest(?::bigint[], ?::text[], ?::bigint[]) AS e (customer, pipeline, depth)
CROSS JOIN LATERAL (
  SELECT
    customer, pipeline, slot, slot_seq, document, priority, urgent, displaced, estimate,
    submitted_at, attempts, suspect, error, detail
  FROM waiting
  WHERE customer = e.customer AND pipeline = e.pipeline AND (urgent = 1 OR displaced = 1)
  ORDER BY urgent DESC, priority, document LIMIT e.depth) AS w;

-- name: delete_waiting
DELETE FROM waiting w
USING unnest(?::bigint[], ?::text[], ?::bigint[], ?::bigint[], ?::bigint[])
  AS e (customer, pipeline, slot, slot_seq, document)
WHERE w.customer = e.customer AND w.pipeline = e.pipeline AND w.slot = e.slot
  AND w.slot_seq = e.slot_seq AND w.document = e.document;

-- name: move_slot
UPDATE waiting w SET slot = e.new_slot, slot_seq = e.new_seq, displaced = 1
FROM unnest(?::bigint[], ?::text[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[])
  AS e (customer, pipeline, slot, slot_seq, document, new_slot, new_seq)
WHERE w.customer = e.customer AND w.pipeline = e.pipeline AND w.slot = e.slot
  AND w.slot_seq = e.slot_seq AND w.document = e.document;

-- name: delete_delayed
DELETE FROM delayed d USING unnest(?::bigint[]) AS e (document) WHERE d.document = e.document;

-- name: take_running
DELETE FROM running r USING unnest(?::bigint[], ?::bigint[]) AS e (document, lease)
WHERE r.document = e.document AND r.lease = e.lease
RETURNING
  r.customer, r.pipeline, r.slot, r.slot_seq, r.document, r.priority, r.urgent, r.displaced,
  r.estimate, r.submitted_at, r.attempts, r.suspect, r.error, r.detail, r.lease, r.worker, r.ready,
  r.started_at, r.payer, r.charge, r.charge_weight, r.charged_tag, r.inner_charge, r.inner_tag;

-- name: finish_document
UPDATE documents d SET
  state = 'done', kind = e.kind, facts = e.facts, files = e.files, seconds = e.seconds,
  started_at = e.started_at, finished_at = e.finished_at, attempts = e.attempts, password = NULL
FROM unnest(
  ?::bigint[], ?::text[], ?::text[], ?::text[], ?::float8[], ?::float8[], ?::float8[], ?::bigint[])
  AS e (seq, kind, facts, files, seconds, started_at, finished_at, attempts)
WHERE d.seq = e.seq;

-- name: fail_document
UPDATE documents d SET
  state = 'failed', kind = coalesce(e.kind, d.kind), error = e.error, detail = e.detail,
  step = e.step, step_attempt = e.step_attempt, seconds = e.seconds, started_at = e.started_at,
  finished_at = e.finished_at, attempts = e.attempts, password = NULL
FROM unnest(
  ?::bigint[], ?::text[], ?::text[], ?::text[], ?::text[], ?::bigint[], ?::float8[], ?::float8[],
  ?::float8[], ?::bigint[])
  AS e (seq, kind, error, detail, step, step_attempt, seconds, started_at, finished_at, attempts)
WHERE d.seq = e.seq;

-- name: save_check
UPDATE customers c SET
  count = e.count, counted_at = e.counted_at, day = e.day, day_bytes = e.day_bytes
FROM unnest(?::bigint[], ?::float8[], ?::bigint[], ?::bigint[], ?::bigint[])
  AS e (count, counted_at, day, day_bytes, id)
WHERE c.id = e.id;

-- name: save_counter
UPDATE customers c SET count = e.count, counted_at = e.counted_at
FROM unnest(?::bigint[], ?::float8[], ?::bigint[]) AS e (count, counted_at, id) WHERE c.id = e.id;

-- Until the end of the transaction. Because of row security the planner expects so few rows that it
-- would sort all matches instead of walking an index until the page is full. If pages cost nothing,
-- it takes the index with the fewest rows.
-- name: walk_in_order
SELECT set_config('enable_sort', 'off', TRUE), set_config('enable_bitmapscan', 'off', TRUE),
  set_config('enable_hashjoin', 'off', TRUE), set_config('enable_mergejoin', 'off', TRUE),
  set_config('max_parallel_workers_per_gather', '0', TRUE),
  set_config('seq_page_cost', '0', TRUE), set_config('random_page_cost', '0', TRUE);
