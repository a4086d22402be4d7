-- Policy bundles that were active, and each activation. Never edited once released.

CREATE TABLE policy_bundles (
    bundle_hash BLOB NOT NULL PRIMARY KEY,
    bundle_id   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- A bundle's files as they were signed, and its signatures, of which it may gain more.
CREATE TABLE policy_bundle_files (
    bundle_hash BLOB NOT NULL REFERENCES policy_bundles (bundle_hash),
    name        TEXT NOT NULL,
    bytes       BLOB NOT NULL,
    PRIMARY KEY (bundle_hash, name)
) STRICT;

-- The last row is the high-water mark.
CREATE TABLE policy_activations (
    sequence    INTEGER NOT NULL PRIMARY KEY,
    at_ms       INTEGER NOT NULL,
    bundle_hash BLOB    NOT NULL REFERENCES policy_bundles (bundle_hash),
    kind        TEXT    NOT NULL CHECK (kind IN ('activate', 'rollback')),
    -- A JSON array of key ids.
    signers     TEXT    NOT NULL,
    reason      TEXT    NOT NULL
) STRICT;

-- What the gateway compares before it writes, held against every other program too.
CREATE TRIGGER policy_activations_rise BEFORE INSERT ON policy_activations
WHEN NEW.sequence <= (SELECT max(sequence) FROM policy_activations)
BEGIN SELECT RAISE(ABORT, 'activations only rise'); END;
CREATE TRIGGER policy_activations_are_not_changed BEFORE UPDATE ON policy_activations
BEGIN SELECT RAISE(ABORT, 'activations are not changed'); END;
CREATE TRIGGER policy_activations_are_not_removed BEFORE DELETE ON policy_activations
BEGIN SELECT RAISE(ABORT, 'activations are not removed'); END;

-- Written by readiness probes, to know that the database can be written.
CREATE TABLE write_probe (
    id    INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    at_ms INTEGER NOT NULL
) STRICT;
