-- What each key serves, once this node has learnt it: from the key's creation, from a generation put in force here, or from
-- the first signature admitted. A row is never changed.
CREATE TABLE key_use (
    key_id TEXT NOT NULL PRIMARY KEY,
    serves TEXT NOT NULL CHECK (serves IN ('payments', 'asset_actions')),
    -- The hash of the row (host/node/src/row_hash.rs).
    row_hash TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER key_use_is_not_changed BEFORE UPDATE ON key_use
BEGIN SELECT RAISE(ABORT, 'what a key serves is not changed'); END;
