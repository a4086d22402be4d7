-- Decision records that can be asked again: with their input, and previews among them. Never edited once released.

-- The policy's `Input`. Rows written before this column can not be asked again, and are no part of what is read.
ALTER TABLE policy_decisions ADD COLUMN input TEXT;
-- Digest of the rest of the row, to tell a damaged one.
ALTER TABLE policy_decisions ADD COLUMN row_hash BLOB;

-- An evaluation that the gateway repeats by itself is kept once: whoever writes looks for it here.
CREATE INDEX policy_decisions_of ON policy_decisions (operation_id);

-- Evaluations that somebody only asked about: the newest so many. Rows are added at one end and dropped at the other; the
-- newest is never dropped, so an index never names two.
CREATE TABLE policy_previews (
    preview_index INTEGER NOT NULL PRIMARY KEY,
    at_ms         INTEGER NOT NULL,
    format        INTEGER NOT NULL,
    row_hash      BLOB    NOT NULL,
    -- The policy's `Input` and `Outcome`.
    input         TEXT    NOT NULL,
    outcome       TEXT    NOT NULL
) STRICT;
