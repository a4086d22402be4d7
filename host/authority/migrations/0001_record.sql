-- The payments that this authority decided on, each once.
CREATE TABLE spending (
    operation_id TEXT NOT NULL PRIMARY KEY,
    intent_hash TEXT NOT NULL,
    tenant TEXT NOT NULL,
    account TEXT NOT NULL,
    recipient TEXT NOT NULL,
    -- The person, as the authority's registry compares people.
    submitter TEXT NOT NULL,
    key_id TEXT NOT NULL,
    currency TEXT NOT NULL,
    -- A negative amount counts as zero.
    amount_minor INTEGER NOT NULL CHECK (amount_minor >= 0),
    -- The time of the last decision on it, by this authority's clock.
    at_ms INTEGER NOT NULL,
    -- The hash of the row (host/authority/src/row.rs).
    row_hash TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX spending_at ON spending (at_ms);

-- The time of the last payment that was dropped because no window has it.
CREATE TABLE rows_dropped (
    name TEXT NOT NULL PRIMARY KEY CHECK (name = 'spending'),
    through INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The policy bundles under which a decision was made: a few, of which the one with the highest sequence is the high-water mark.
CREATE TABLE bundle (
    bundle_hash TEXT NOT NULL PRIMARY KEY,
    -- The bundle's own sequence, or that of the signed activation record with which it was offered.
    sequence INTEGER NOT NULL CHECK (sequence >= 0),
    -- The time of the first decision under the bundle with this sequence.
    active_at_ms INTEGER NOT NULL,
    row_hash TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row: how many decisions were written here. It only grows.
CREATE TABLE size (
    one INTEGER NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    n_decisions INTEGER NOT NULL CHECK (n_decisions >= 0)
) STRICT;

INSERT INTO size (n_decisions) VALUES (0);

CREATE TRIGGER size_only_grows BEFORE UPDATE ON size WHEN new.n_decisions <= old.n_decisions
BEGIN SELECT RAISE(ABORT, 'the number of decisions only grows'); END;

CREATE TRIGGER size_is_not_deleted BEFORE DELETE ON size
BEGIN SELECT RAISE(ABORT, 'the number of decisions is not deleted'); END;
