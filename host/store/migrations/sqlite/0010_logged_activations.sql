-- Which operations may have changed a key, found without reading the others; and activations as entries of the log of all
-- events. Never edited once released.

-- Each in the words of the statement that uses it: spelled otherwise it would not be used.
CREATE INDEX events_changing_key ON events ((body ->> '$.change.key.key_id'))
WHERE seq = 1 AND json_valid(body) AND (body ->> '$.change.intent.kind') NOT IN ('payment', 'asset_action');
CREATE INDEX events_making_successor ON events ((body ->> '$.change.successor.key_id'))
WHERE seq = 1 AND json_valid(body) AND (body ->> '$.change.intent.kind') NOT IN ('payment', 'asset_action');

-- What the unreleased versions before activated has no place in the log, and SQL cannot give it one: a database that has any
-- of it is refused by the NULL.
CREATE TABLE unlogged (ledger_index INTEGER NOT NULL) STRICT;
INSERT INTO unlogged SELECT NULL FROM policy_activations;
DROP TABLE unlogged;
DROP TABLE policy_activations;

-- The last row is the high-water mark. Each row is an entry of the log, its `row_hash` the leaf: one that is taken away
-- leaves a place that nothing has.
CREATE TABLE policy_activations (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    at_ms        INTEGER NOT NULL,
    bundle_hash  BLOB    NOT NULL REFERENCES policy_bundles (bundle_hash),
    kind         TEXT    NOT NULL CHECK (kind IN ('activate', 'rollback')),
    -- A JSON array of key ids.
    signers      TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    -- Over the `row_hash` before, zero at first, and the columns before it.
    row_hash     BLOB    NOT NULL,
    -- Its leaf in the log.
    ledger_index INTEGER NOT NULL UNIQUE,
    -- The root of the log right after it.
    ledger_root  BLOB    NOT NULL
) STRICT;

-- What the gateway compares before it writes, held against every other program too.
CREATE TRIGGER policy_activations_rise BEFORE INSERT ON policy_activations
WHEN NEW.sequence <= (SELECT max(sequence) FROM policy_activations)
BEGIN SELECT RAISE(ABORT, 'activations only rise'); END;
CREATE TRIGGER policy_activations_are_not_changed BEFORE UPDATE ON policy_activations
BEGIN SELECT RAISE(ABORT, 'activations are not changed'); END;
CREATE TRIGGER policy_activations_are_not_removed BEFORE DELETE ON policy_activations
BEGIN SELECT RAISE(ABORT, 'activations are not removed'); END;

-- The entries of the log, from 0 and without gaps.
CREATE VIEW ledger_leaves (ledger_index, hash) AS
SELECT ledger_index, event_hash FROM events UNION ALL SELECT ledger_index, row_hash FROM policy_activations;
