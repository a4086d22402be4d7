-- What nothing else in the database says again: the hash of the row (host/node/src/row_hash.rs). None in rows from before.
ALTER TABLE statement ADD COLUMN row_hash TEXT;
ALTER TABLE effect ADD COLUMN row_hash TEXT;
ALTER TABLE consumed ADD COLUMN row_hash TEXT;
ALTER TABLE ceremony ADD COLUMN row_hash TEXT;
ALTER TABLE share ADD COLUMN row_hash TEXT;
