-- Which custody operations each key has, and keys by name alone. Never edited once released.

-- A rotation is an operation of two keys: the one it retires and the one it makes. Rows are only added.
CREATE TABLE key_operations (
    -- No reference: the operation may be about a key that does not exist yet.
    key_id       BLOB    NOT NULL,
    -- Of the operation's first event: later operations have higher ones.
    ledger_index INTEGER NOT NULL,
    operation_id BLOB    NOT NULL REFERENCES operations (operation_id),
    PRIMARY KEY (key_id, ledger_index)
) STRICT, WITHOUT ROWID;

INSERT INTO key_operations (key_id, ledger_index, operation_id)
SELECT key_id, ledger_index, operation_id FROM operations JOIN events USING (operation_id)
WHERE family = 'custody' AND seq = 1;

-- For callers whose tenant nobody knows: the development bypass.
CREATE INDEX custody_keys_named ON custody_keys (key_ref);
