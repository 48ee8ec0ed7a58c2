-- A claim is begun at once, or it lies ready: then nobody knows whether it was ever begun.
ALTER TABLE documents ADD COLUMN ready INTEGER NOT NULL DEFAULT 0;
-- 1: its worker was gone once; from now on no claim of it lies ready.
ALTER TABLE documents ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0;
