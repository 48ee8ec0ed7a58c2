
-- PostgreSQL's additions to the shared schema.

CREATE SEQUENCE document_numbers;

-- Rows that change with every claim: free space for new versions, and early vacuum.
ALTER TABLE queue_state SET (fillfactor = 10, autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 1000, autovacuum_analyze_threshold = 1000000);
ALTER TABLE queue_tallies SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 1000);
ALTER TABLE queue_members SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE queue_entries SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE customers SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE documents SET (fillfactor = 70);
ALTER TABLE queue_events SET (autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 1000);
ALTER TABLE running SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE leases SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Row-level security: a connection with the setting fairlead.customer sees only the rows of that
-- customer. Without it, a connection sees all rows. The policy also applies to the table's owner.
CREATE FUNCTION only_customer() RETURNS BIGINT LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT nullif(current_setting('fairlead.customer', TRUE), '')::BIGINT $$;

DO $$
DECLARE
  guarded TEXT[] := ARRAY[
    'accounts', 'access_keys', 'batches', 'customers', 'delayed', 'deleted', 'deleted_customers',
    'deliveries',
    'documents', 'events', 'idempotency_keys', 'interim', 'job_ends', 'metadata_terms', 'originals',
    'results', 'running', 'retry_slots', 'usage', 'waiting', 'webhooks'];
  of_document TEXT :=  -- reads one document, however many the customer has
    'EXISTS (SELECT 1 FROM documents d
       WHERE d.seq = document AND d.customer = (SELECT only_customer()))';
  own TEXT;
  name TEXT;
BEGIN
  FOREACH name IN ARRAY guarded LOOP
    own := CASE name
      WHEN 'customers' THEN 'id = (SELECT only_customer())'
      WHEN 'accounts' THEN
        'id = (SELECT account FROM customers WHERE customers.id = (SELECT only_customer()))'
      WHEN 'deleted_customers' THEN 'FALSE'
      WHEN 'deliveries' THEN
        'webhook IN (SELECT id FROM webhooks WHERE customer = (SELECT only_customer()))'
      WHEN 'interim' THEN of_document
      WHEN 'job_ends' THEN of_document
      WHEN 'originals' THEN of_document
      WHEN 'results' THEN of_document
      ELSE 'customer = (SELECT only_customer())'
    END;
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format(
      'CREATE POLICY own ON %I USING ((SELECT only_customer()) IS NULL OR %s)', name, own);
  END LOOP;
END $$;
