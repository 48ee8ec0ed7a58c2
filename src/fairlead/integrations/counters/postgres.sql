-- name: table_exists
SELECT to_regclass('fairlead_counters') IS NOT NULL;

-- name: lock
SELECT pg_advisory_lock(hashtext('fairlead_counters'));

-- name: create_table
CREATE TABLE IF NOT EXISTS fairlead_counters (
    name text NOT NULL,
    customer text NOT NULL,
    count bigint NOT NULL,
    updated_at bigint NOT NULL, -- microseconds since 1970
    PRIMARY KEY (name, customer)
);

-- name: unlock
SELECT pg_advisory_unlock(hashtext('fairlead_counters'));

-- name: set_asynchronous_commit
SET synchronous_commit = off; -- a crash of the server may lose the last half second of counts

-- name: check
INSERT INTO fairlead_counters AS counter (name, customer, count, updated_at)
VALUES (
    $1, $2, 0,
    coalesce($4::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
)
ON CONFLICT (name, customer) DO UPDATE SET
    count = CASE
        WHEN excluded.updated_at - counter.updated_at > $3::bigint THEN 0
        ELSE counter.count - 1
    END,
    updated_at = greatest(counter.updated_at, excluded.updated_at)
RETURNING counter.count;
