-- Operations with their events, the log that all events go to, and the keys. Never edited once released.
--
-- Identifiers and hashes are 32 raw bytes. A `body` is JSON in the form that the row's `format` numbers; the columns
-- beside it repeat what is searched or compared.

CREATE TABLE operations (
    operation_id     BLOB    NOT NULL PRIMARY KEY,
    tenant           TEXT    NOT NULL,
    family           TEXT    NOT NULL,
    -- No reference: an operation may be about a key that does not exist yet.
    key_id           BLOB    NOT NULL,
    state            TEXT    NOT NULL,
    -- 1 when a step is owed: the reconciler's work list.
    owes             INTEGER NOT NULL,
    awaits_approvals INTEGER NOT NULL,
    -- The number of its events.
    revision         INTEGER NOT NULL,
    -- The hash of its last event.
    record_root      BLOB    NOT NULL,
    -- The root of the log right after its last event.
    ledger_root      BLOB    NOT NULL,
    created_at_ms    INTEGER NOT NULL,
    updated_at_ms    INTEGER NOT NULL,
    format           INTEGER NOT NULL,
    body             TEXT    NOT NULL,
    -- When the reconciler may try again, and the wait before that, milliseconds. A change ends a wait. No other row repeats them.
    due_ms           INTEGER NOT NULL,
    waited_ms        INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Partial, so that operations at rest cost nothing.
CREATE INDEX operations_owing ON operations (tenant, due_ms, updated_at_ms) WHERE owes = 1;
CREATE INDEX operations_awaiting_approvals ON operations (created_at_ms) WHERE awaits_approvals = 1;
CREATE INDEX operations_awaiting_execution ON operations (updated_at_ms) WHERE state = 'admitted' AND owes = 0;

CREATE TABLE events (
    -- The event's leaf in the log, from 0 and without gaps. The table's own order, so that an event is appended.
    ledger_index INTEGER NOT NULL PRIMARY KEY,
    operation_id BLOB    NOT NULL REFERENCES operations (operation_id),
    -- From 1: the operation's revision after the event.
    seq          INTEGER NOT NULL,
    event_hash   BLOB    NOT NULL,
    format       INTEGER NOT NULL,
    body         TEXT    NOT NULL,
    UNIQUE (operation_id, seq)
) STRICT;

-- Inner nodes of the log (RFC 6962, section 2.1). Leaves follow from `events.event_hash`.
CREATE TABLE ledger_nodes (
    -- 1 for the parent of two leaves.
    level    INTEGER NOT NULL,
    -- From 0 within the level.
    position INTEGER NOT NULL,
    hash     BLOB    NOT NULL,
    PRIMARY KEY (level, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency_claims (
    tenant          TEXT NOT NULL,
    family          TEXT NOT NULL,
    -- Empty for the product family, whose claims span keys.
    key_ref         TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    operation_id    BLOB NOT NULL REFERENCES operations (operation_id),
    PRIMARY KEY (tenant, family, key_ref, idempotency_key)
) STRICT, WITHOUT ROWID;

-- That no two operations change one key at once is not a constraint here but a comparison: whoever writes the row names
-- the revision it read, and the row's `busy_with` decided whether it may. Of two operations that found the key free at
-- one revision, the second finds another revision and writes nothing. `busy_with` stands in one row, so it can not name
-- two; an index over operations would repeat that.
CREATE TABLE custody_keys (
    key_id    BLOB    NOT NULL PRIMARY KEY,
    tenant    TEXT    NOT NULL,
    key_ref   TEXT    NOT NULL,
    state     TEXT    NOT NULL,
    busy_with BLOB    REFERENCES operations (operation_id),
    revision  INTEGER NOT NULL,
    format    INTEGER NOT NULL,
    -- The `CustodyKey`, with the times of its creation and of its epoch.
    body      TEXT    NOT NULL,
    UNIQUE (tenant, key_ref)
) STRICT;

-- Evaluations that let no operation come to be. One submission may be refused many times.
CREATE TABLE policy_decisions (
    decision_index INTEGER NOT NULL PRIMARY KEY,
    at_ms          INTEGER NOT NULL,
    tenant         TEXT    NOT NULL,
    -- No reference: there is no such operation.
    operation_id   BLOB    NOT NULL,
    intent_hash    BLOB    NOT NULL,
    format         INTEGER NOT NULL,
    -- The `ClientBinding` and the policy's `Outcome`.
    submitter      TEXT    NOT NULL,
    outcome        TEXT    NOT NULL
) STRICT;
