-- A claim is begun at once, or it lies ready: then nobody knows whether it was ever begun.
ALTER TABLE documents ADD COLUMN ready BOOLEAN NOT NULL DEFAULT FALSE;
-- Its worker was gone once; from now on no claim of it lies ready.
ALTER TABLE documents ADD COLUMN suspect BOOLEAN NOT NULL DEFAULT FALSE;
