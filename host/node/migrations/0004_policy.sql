-- Policy bundles that this node verified under its own trust roots and pins, so that a restart keeps them: a few, and always the
-- one with the highest sequence under which an operation was admitted.
CREATE TABLE bundle (
    bundle_hash TEXT NOT NULL PRIMARY KEY,
    -- The bundle's own sequence, or that of the signed activation record with which it was offered.
    sequence INTEGER NOT NULL CHECK (sequence >= 0),
    offered_at_ms INTEGER NOT NULL,
    -- When an operation was first admitted under the bundle with this sequence. The highest such sequence is the high-water mark.
    active_at_ms INTEGER,
    -- The names of its files, one a line.
    files TEXT NOT NULL,
    -- The hash of the row (host/node/src/row_hash.rs).
    row_hash TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE bundle_file (
    bundle_hash TEXT NOT NULL,
    name TEXT NOT NULL,
    bytes BLOB NOT NULL,
    row_hash TEXT NOT NULL,
    PRIMARY KEY (bundle_hash, name)
) STRICT;

-- The payments that this node admitted and has not discarded, as long as a limit may need them.
CREATE TABLE spending (
    operation_id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    account TEXT NOT NULL,
    recipient TEXT NOT NULL,
    -- The person, as this node's registry compares people.
    submitter TEXT NOT NULL,
    key_id TEXT NOT NULL,
    currency TEXT NOT NULL,
    -- A negative amount counts as zero.
    amount_minor INTEGER NOT NULL CHECK (amount_minor >= 0),
    -- The time of the admission, by this node's clock.
    at_ms INTEGER NOT NULL,
    row_hash TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX spending_at ON spending (at_ms);

-- The time of the last payment that was dropped because no window has it.
CREATE TABLE rows_dropped (
    name TEXT NOT NULL PRIMARY KEY CHECK (name = 'spending'),
    through INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- To count the operations that were discarded unheard.
CREATE INDEX operation_missed ON operation (operation_id) WHERE statement_index IS NULL;
