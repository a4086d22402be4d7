-- The whole store. Never edited once released.
--
-- Identifiers and hashes are 32 raw bytes. A `body` is JSON in the form that the row's `format` numbers; the columns
-- beside it repeat what is searched or compared.

CREATE TABLE operations (
    operation_id     BLOB    NOT NULL PRIMARY KEY,
    tenant           TEXT    NOT NULL,
    family           TEXT    NOT NULL,
    -- No reference: an operation may be about a key that does not exist yet.
    key_id           BLOB    NOT NULL,
    -- The person, as people are compared.
    submitter        TEXT    NOT NULL,
    state            TEXT    NOT NULL,
    -- 1 when a step is owed: the reconciler's work list.
    owes             INTEGER NOT NULL,
    awaits_approvals INTEGER NOT NULL,
    -- When its postponed admission is decided; 0 if it is not postponed.
    resumes_at_ms    INTEGER NOT NULL,
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
CREATE INDEX operations_pending ON operations (tenant, submitter) WHERE awaits_approvals = 1;
CREATE INDEX operations_awaiting_execution ON operations (updated_at_ms) WHERE state = 'admitted' AND owes = 0;
CREATE INDEX operations_postponed ON operations (resumes_at_ms) WHERE resumes_at_ms > 0;

-- Lists, newest first. Each index holds all that a list compares, in its order: a page reads as many rows as it shows, wherever in the list
-- it is.
CREATE INDEX operations_listed ON operations (tenant, family, created_at_ms, operation_id);
CREATE INDEX operations_in_state ON operations (tenant, family, state, created_at_ms, operation_id);
CREATE INDEX operations_on_key ON operations (key_id, family, created_at_ms, operation_id);
CREATE INDEX operations_undecided ON operations (tenant, family, created_at_ms, operation_id) WHERE awaits_approvals = 1;
-- Payments are of one kind.
CREATE INDEX operations_of_kind ON operations (tenant, (body ->> '$.intent.kind'), created_at_ms, operation_id)
WHERE family = 'custody' AND json_valid(body);

CREATE TABLE events (
    -- The event's leaf in the log, from 0. Events and activations together have no gaps. The table's own order, so that an event is appended.
    ledger_index INTEGER NOT NULL PRIMARY KEY,
    operation_id BLOB    NOT NULL REFERENCES operations (operation_id),
    -- From 1: the operation's revision after the event.
    seq          INTEGER NOT NULL,
    event_hash   BLOB    NOT NULL,
    -- 32 random bytes, zero where the event hides nothing. A reader of the salt can guess what an export hides.
    salt         BLOB    NOT NULL,
    format       INTEGER NOT NULL,
    body         TEXT    NOT NULL,
    UNIQUE (operation_id, seq)
) STRICT;

-- The operations that may have changed a key, found without reading the others. Each in the words of the statement that uses it: spelled
-- otherwise it would not be used.
CREATE INDEX events_changing_key ON events ((body ->> '$.change.key.key_id'))
WHERE seq = 1 AND json_valid(body) AND (body ->> '$.change.intent.kind') NOT IN ('payment', 'asset_action');
CREATE INDEX events_making_successor ON events ((body ->> '$.change.successor.key_id'))
WHERE seq = 1 AND json_valid(body) AND (body ->> '$.change.intent.kind') NOT IN ('payment', 'asset_action');

-- Inner nodes of the log (RFC 6962, section 2.1). Leaves follow from `events.event_hash` and `policy_activations.row_hash`.
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

-- That no two operations change one key at once is not a constraint here but a comparison: a write names the revision that it
-- read, and the row's `busy_with` decided whether it may. Of two operations that found the key free at one revision, the second
-- finds another revision and writes nothing. `busy_with` stands in one row, so it cannot name two; an index over operations would
-- repeat that.
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

-- For callers whose tenant is unknown: the development bypass.
CREATE INDEX custody_keys_named ON custody_keys (key_ref);
-- `<threshold> <participants as JSON>` of a key that signs, null of others. Many keys have the same: a readiness probe
-- finds each combination once, without reading the keys.
CREATE INDEX custody_keys_quorum ON custody_keys (
    CASE WHEN state IN ('active', 'refreshing', 'resharing', 'recovering', 'rotating')
    THEN (body ->> '$.threshold') || ' ' || (body ->> '$.participants') END
);
CREATE INDEX custody_keys_listed ON custody_keys (tenant, (body ->> '$.created_at_ms'), key_id) WHERE json_valid(body);

-- Which custody operations each key has. A rotation is an operation of two keys: the one it retires and the one it makes. Rows are only
-- added.
CREATE TABLE key_operations (
    -- No reference: the operation may be about a key that does not exist yet.
    key_id       BLOB    NOT NULL,
    -- Of the operation's first event: later operations have higher ones.
    ledger_index INTEGER NOT NULL,
    operation_id BLOB    NOT NULL REFERENCES operations (operation_id),
    PRIMARY KEY (key_id, ledger_index)
) STRICT, WITHOUT ROWID;

-- One row for each payment whose admission was decided and that did not fail since: written in the transaction of the
-- decision, and removed in that of the failure. All of it follows from the events.
CREATE TABLE spending (
    operation_id BLOB    NOT NULL PRIMARY KEY REFERENCES operations (operation_id),
    tenant       TEXT    NOT NULL,
    account      TEXT    NOT NULL,
    recipient    TEXT    NOT NULL,
    -- The person, as people are compared.
    submitter    TEXT    NOT NULL,
    -- In hexadecimal.
    key_id       TEXT    NOT NULL,
    currency     TEXT    NOT NULL,
    -- When the decision was made.
    at_ms        INTEGER NOT NULL,
    -- Never below 0: a payment of less makes no room for others.
    amount_minor INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The oldest rows first.
CREATE INDEX spending_at ON spending (at_ms);

-- One row for each published payment, which proves that its key paid its recipient. All of it follows from the events. Rows are only
-- added: how long a recipient is known has no limit.
CREATE TABLE paid (
    operation_id BLOB    NOT NULL PRIMARY KEY REFERENCES operations (operation_id),
    key_id       BLOB    NOT NULL,
    recipient    TEXT    NOT NULL,
    -- From when the decision on it was valid.
    at_ms        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX paid_to_recipient ON paid (key_id, recipient, at_ms, operation_id);

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
    -- Of the request that caused the evaluation; empty without one.
    request_id     TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    -- Over index, instant, operation, request, input and outcome, from which the other columns follow.
    row_hash       BLOB    NOT NULL,
    -- The policy's `Input` and `Outcome`.
    input          TEXT    NOT NULL,
    outcome        TEXT    NOT NULL
) STRICT;

-- An evaluation that the gateway repeats by itself is kept once: its writer looks for it here.
CREATE INDEX policy_decisions_of ON policy_decisions (operation_id);
-- Those that a caller searches for.
CREATE INDEX policy_decisions_by_request ON policy_decisions (request_id);
CREATE INDEX policy_decisions_by_claim ON policy_decisions (idempotency_key);

-- Evaluations that a caller only previewed: the newest so many, without gaps. Rows are added at one end and dropped at
-- the other.
CREATE TABLE policy_previews (
    preview_index INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    at_ms         INTEGER NOT NULL,
    format        INTEGER NOT NULL,
    -- Of the request; may be empty.
    request_id    TEXT NOT NULL,
    -- Over index, instant, request, input and outcome.
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

-- How far rows of a table were deleted on purpose; no row before the first was. For `spending` the `at_ms` of the newest deleted row,
-- for `policy_decisions` the last deleted index.
CREATE TABLE rows_dropped (
    name    TEXT    NOT NULL PRIMARY KEY CHECK (name IN ('spending', 'policy_decisions')),
    through INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The last row is the high-water mark. Each row is an entry of the log, its `row_hash` the leaf: one that is removed
-- leaves a place that no entry has.
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

-- What the gateway compares before it writes, required of every other program too.
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

-- One instant for each client that submitted recently (GCRA's theoretical arrival time), at which its quota is full again. A row
-- whose instant has passed is deleted in time.
CREATE TABLE admission_budgets (
    tenant     TEXT    NOT NULL,
    client_id  TEXT    NOT NULL,
    -- Microseconds since the epoch.
    full_at_us INTEGER NOT NULL,
    PRIMARY KEY (tenant, client_id)
) STRICT, WITHOUT ROWID;

-- Those whose instant has passed.
CREATE INDEX admission_budgets_full ON admission_budgets (full_at_us);

-- Written by readiness probes, to know that the database can be written.
CREATE TABLE write_probe (
    id    INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    at_ms INTEGER NOT NULL
) STRICT;

-- How far the log was sent to each webhook.
CREATE TABLE webhooks (
    name         TEXT    NOT NULL PRIMARY KEY,
    -- Whose events it gets; without one, those of all tenants.
    tenant       TEXT,
    -- Index in the log of the first event that was not sent yet.
    position     INTEGER NOT NULL CHECK (position >= 0),
    -- How often it was set back.
    resends      INTEGER NOT NULL DEFAULT 0,
    -- The process that sends, random of each start, and until when no other one does.
    holder       BLOB    NOT NULL DEFAULT x'',
    held_until_ms INTEGER NOT NULL DEFAULT 0,
    -- Why the last request was not accepted, and since when none was.
    failure      TEXT,
    failing_since_ms INTEGER
) STRICT, WITHOUT ROWID;

-- Events that a webhook refused, and that were passed over.
CREATE TABLE webhook_dead_letters (
    name         TEXT    NOT NULL REFERENCES webhooks (name),
    ledger_index INTEGER NOT NULL,
    at_ms        INTEGER NOT NULL,
    why          TEXT    NOT NULL,
    PRIMARY KEY (name, ledger_index)
) STRICT, WITHOUT ROWID;
