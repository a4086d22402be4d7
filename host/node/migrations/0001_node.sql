-- One row, made when the store is: under which key it is sealed, and who the node is.
CREATE TABLE node (
    one INTEGER NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    -- Check value of the key-encryption key: the store opens under no other.
    kek_check BLOB NOT NULL CHECK (length(kek_check) = 32),
    -- The seed of the node's identity, sealed.
    identity_seed BLOB NOT NULL
) STRICT;

-- One row an operation this node admitted, or was told to forget before it ever heard of it.
CREATE TABLE operation (
    operation_id TEXT NOT NULL PRIMARY KEY,
    admission_hash TEXT NOT NULL,
    -- Whose shares it is about; none for an operation that was discarded unheard.
    key_id TEXT,
    stage TEXT NOT NULL
        CHECK (stage IN ('admitted', 'receipted', 'executed', 'committed', 'published', 'discarded')),
    -- The head of this node's chain of steps.
    head TEXT NOT NULL,
    -- Its row in `statement`; none for an operation that was discarded unheard.
    statement_index INTEGER REFERENCES statement (statement_index),
    CHECK ((statement_index IS NOT NULL AND key_id IS NOT NULL) OR stage = 'discarded')
) STRICT, WITHOUT ROWID;

-- Intent, approvals and signed decision as JSON. Apart from the operation, whose row is written at every step.
CREATE TABLE statement (
    statement_index INTEGER NOT NULL PRIMARY KEY,
    body TEXT NOT NULL
) STRICT;

-- Steps done: a repeat is answered from here.
CREATE TABLE effect (
    effect_id TEXT NOT NULL PRIMARY KEY,
    content TEXT NOT NULL,
    transition_hash TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Nonces that signed. A row is on disk before its share leaves the node.
CREATE TABLE consumed (
    operation_id TEXT NOT NULL,
    attempt INTEGER NOT NULL CHECK (attempt > 0),
    commitment_hash TEXT NOT NULL UNIQUE,
    package_hash TEXT NOT NULL,
    package TEXT NOT NULL,
    share BLOB NOT NULL,
    PRIMARY KEY (operation_id, attempt)
) STRICT, WITHOUT ROWID;

-- The latest attempt at a ceremony that makes shares, by operation.
CREATE TABLE ceremony (
    operation_id TEXT NOT NULL PRIMARY KEY,
    attempt INTEGER NOT NULL CHECK (attempt > 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE share (
    key_id TEXT NOT NULL,
    epoch TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('staged', 'active', 'retired', 'erased')),
    -- What made it.
    operation_id TEXT NOT NULL,
    attempt INTEGER NOT NULL CHECK (attempt > 0),
    -- When the node staged it, and when it began to use it, by its own clock.
    made_at_ms INTEGER NOT NULL,
    used_since_ms INTEGER,
    epoch_root TEXT NOT NULL,
    public_keys BLOB NOT NULL,
    -- Sealed for this node, key and epoch: moved to another row, it does not open.
    secret BLOB,
    PRIMARY KEY (key_id, epoch),
    CHECK ((secret IS NULL) = (state = 'erased')),
    CHECK ((used_since_ms IS NULL) = (state = 'staged'))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX share_active ON share (key_id) WHERE state = 'active';
