-- name: create_table
CREATE TABLE IF NOT EXISTS fairlead_counters (
    name TEXT NOT NULL,
    customer TEXT NOT NULL,
    count INTEGER NOT NULL,
    updated_at INTEGER NOT NULL, -- microseconds since 1970
    PRIMARY KEY (name, customer)
) STRICT, WITHOUT ROWID;

-- name: check
INSERT INTO fairlead_counters AS counter (name, customer, count, updated_at)
VALUES (?1, ?2, 0, ?4)
ON CONFLICT (name, customer) DO UPDATE SET
    count = CASE
        WHEN excluded.updated_at - counter.updated_at > ?3 THEN 0
        ELSE counter.count - 1
    END,
    updated_at = max(counter.updated_at, excluded.updated_at)
RETURNING count;
