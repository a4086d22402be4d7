-- The node's log: one entry for each receipt that it signed, appended in the transaction of the step and never changed. The
-- entries are the leaves of a Merkle tree.
CREATE TABLE log_entry (
    log_index INTEGER NOT NULL PRIMARY KEY CHECK (log_index >= 0),
    -- The step that the receipt is for; null for an entry about the log itself.
    operation_id TEXT,
    transition_hash TEXT,
    -- The entry as JSON.
    body TEXT NOT NULL,
    -- The roots of the complete subtrees that the entry ends, 32 bytes each: its own leaf first, then parent after parent.
    nodes BLOB NOT NULL CHECK (length(nodes) >= 32 AND length(nodes) % 32 = 0),
    CHECK ((operation_id IS NULL) = (transition_hash IS NULL))
) STRICT;

CREATE UNIQUE INDEX log_entry_step ON log_entry (operation_id, transition_hash) WHERE operation_id IS NOT NULL;
CREATE INDEX log_entry_about_the_log ON log_entry (log_index) WHERE operation_id IS NULL;

CREATE TRIGGER log_entry_is_not_changed BEFORE UPDATE ON log_entry
BEGIN SELECT RAISE(ABORT, 'an entry of the log is not changed'); END;

CREATE TRIGGER log_entry_is_not_deleted BEFORE DELETE ON log_entry
BEGIN SELECT RAISE(ABORT, 'an entry of the log is not deleted'); END;

-- At most one row: the last rollback that the node was shown, or that an operator reported.
CREATE TABLE rolled_back (
    one INTEGER NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    -- The size that the log had at least, and the first position at which it differs from what the node signed.
    size_shown INTEGER NOT NULL CHECK (size_shown >= 0),
    lost_from INTEGER NOT NULL CHECK (lost_from >= 0),
    -- The entry of the readmission, and its time. Null while the node is stopped.
    readmitted_index INTEGER,
    readmitted_at_ms INTEGER,
    -- The hash of the row (host/node/src/row_hash.rs).
    row_hash TEXT NOT NULL,
    CHECK ((readmitted_index IS NULL) = (readmitted_at_ms IS NULL))
) STRICT;
