-- Hashes of the rows that follow from no event, and counters that outlive rows. Never edited once released.
--
-- What was written by the unreleased versions before has no hash, and SQL can not make one: a database that has any of it
-- is refused by the NULL.
CREATE TABLE unhashed (row_hash BLOB NOT NULL) STRICT;
INSERT INTO unhashed SELECT NULL FROM policy_decisions;
INSERT INTO unhashed SELECT NULL FROM policy_previews;
INSERT INTO unhashed SELECT NULL FROM policy_bundles;
DROP TABLE unhashed;
DROP TABLE policy_decisions;
DROP TABLE policy_previews;
DROP TABLE policy_activations;
DROP TABLE policy_bundle_files;
DROP TABLE policy_bundles;

-- Evaluations that moved no operation, from 1 and without gaps. AUTOINCREMENT, here and below, so that `sqlite_sequence`
-- still knows of a last row that is gone.
CREATE TABLE policy_decisions (
    decision_index INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    at_ms          INTEGER NOT NULL,
    tenant         TEXT    NOT NULL,
    -- No reference: there may be no such operation.
    operation_id   BLOB    NOT NULL,
    intent_hash    BLOB    NOT NULL,
    format         INTEGER NOT NULL,
    -- The `ClientBinding`.
    submitter      TEXT    NOT NULL,
    -- Over index, instant, operation, input and outcome, from which the other columns follow.
    row_hash       BLOB    NOT NULL,
    -- The policy's `Input` and `Outcome`.
    input          TEXT    NOT NULL,
    outcome        TEXT    NOT NULL
) STRICT;

-- An evaluation that the gateway repeats by itself is kept once: whoever writes looks for it here.
CREATE INDEX policy_decisions_of ON policy_decisions (operation_id);

-- Evaluations that somebody only asked about: the newest so many, without gaps. Rows are added at one end and dropped at
-- the other.
CREATE TABLE policy_previews (
    preview_index INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    at_ms         INTEGER NOT NULL,
    format        INTEGER NOT NULL,
    -- Over index, instant, input and outcome.
    row_hash      BLOB    NOT NULL,
    -- The policy's `Input` and `Outcome`.
    input         TEXT    NOT NULL,
    outcome       TEXT    NOT NULL
) STRICT;

-- How far previews were dropped; no row before the first was.
CREATE TABLE policy_previews_dropped (
    id            INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    through_index INTEGER NOT NULL
) STRICT;

CREATE TABLE policy_bundles (
    bundle_hash BLOB NOT NULL PRIMARY KEY,
    bundle_id   TEXT NOT NULL,
    -- Over hash, id, and the names and hashes of all its files.
    row_hash    BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- A bundle's files as they were signed, and its signatures, of which it may gain more.
CREATE TABLE policy_bundle_files (
    bundle_hash BLOB NOT NULL REFERENCES policy_bundles (bundle_hash),
    name        TEXT NOT NULL,
    bytes       BLOB NOT NULL,
    -- Over the columns before it.
    row_hash    BLOB NOT NULL,
    PRIMARY KEY (bundle_hash, name)
) STRICT;

-- The last row is the high-water mark.
CREATE TABLE policy_activations (
    sequence    INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    at_ms       INTEGER NOT NULL,
    bundle_hash BLOB    NOT NULL REFERENCES policy_bundles (bundle_hash),
    kind        TEXT    NOT NULL CHECK (kind IN ('activate', 'rollback')),
    -- A JSON array of key ids.
    signers     TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    -- Over the `row_hash` before, zero at first, and the columns before it.
    row_hash    BLOB    NOT NULL
) STRICT;

-- What the gateway compares before it writes, held against every other program too.
CREATE TRIGGER policy_activations_rise BEFORE INSERT ON policy_activations
WHEN NEW.sequence <= (SELECT max(sequence) FROM policy_activations)
BEGIN SELECT RAISE(ABORT, 'activations only rise'); END;
CREATE TRIGGER policy_activations_are_not_changed BEFORE UPDATE ON policy_activations
BEGIN SELECT RAISE(ABORT, 'activations are not changed'); END;
CREATE TRIGGER policy_activations_are_not_removed BEFORE DELETE ON policy_activations
BEGIN SELECT RAISE(ABORT, 'activations are not removed'); END;
