-- name: make
CREATE TABLE IF NOT EXISTS fairlead_ledger (
    name TEXT NOT NULL,
    customer TEXT NOT NULL,
    count INTEGER NOT NULL,
    updated_at INTEGER NOT NULL, -- microseconds since 1970
    PRIMARY KEY (name, customer)
) STRICT, WITHOUT ROWID;

-- name: check
INSERT INTO fairlead_ledger AS ledger (name, customer, count, updated_at)
VALUES (?1, ?2, 0, ?4)
ON CONFLICT (name, customer) DO UPDATE SET
    count = CASE
        WHEN excluded.updated_at - ledger.updated_at > ?3 THEN 0
        ELSE ledger.count - 1
    END,
    updated_at = max(ledger.updated_at, excluded.updated_at)
RETURNING count;
