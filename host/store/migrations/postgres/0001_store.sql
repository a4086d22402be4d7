-- The whole store. Never edited once released.
--
-- Identifiers and hashes are 32 raw bytes. A `body` is JSON in the form that the row's `format` numbers, as text, because its bytes
-- are hashed; the columns beside it repeat what is searched or compared. Text is ordered by its bytes. Flags are 0 or 1.

-- The end of the log of all events. Every writing transaction locks this row first, so that the log has one order.
CREATE TABLE ledger_head (
    id       BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    -- The number of entries.
    n_leaves BIGINT NOT NULL CHECK (n_leaves >= 0),
    -- The root after them. Of no entries, the hash of nothing (RFC 6962, section 2.1).
    root     BYTEA  NOT NULL
);
INSERT INTO ledger_head (id, n_leaves, root)
VALUES (1, 0, '\xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855');

CREATE TABLE operations (
    operation_id     BYTEA  NOT NULL PRIMARY KEY,
    tenant           TEXT   COLLATE "C" NOT NULL,
    family           TEXT   COLLATE "C" NOT NULL,
    -- No reference: an operation may be about a key that does not exist yet.
    key_id           BYTEA  NOT NULL,
    -- The person, as people are compared.
    submitter        TEXT   COLLATE "C" NOT NULL,
    state            TEXT   COLLATE "C" NOT NULL,
    -- 1 when a step is owed: the reconcilers' work list.
    owes             BIGINT NOT NULL CHECK (owes IN (0, 1)),
    awaits_approvals BIGINT NOT NULL CHECK (awaits_approvals IN (0, 1)),
    -- When its postponed admission is decided; 0 if it is not postponed.
    resumes_at_ms    BIGINT NOT NULL,
    -- The number of its events.
    revision         BIGINT NOT NULL,
    -- The hash of its last event.
    record_root      BYTEA  NOT NULL,
    -- The root of the log right after its last event.
    ledger_root      BYTEA  NOT NULL,
    created_at_ms    BIGINT NOT NULL,
    updated_at_ms    BIGINT NOT NULL,
    format           BIGINT NOT NULL,
    body             TEXT   COLLATE "C" NOT NULL,
    -- When a reconciler may try again, or another one if that one has died, and the wait before that, milliseconds. A change ends a wait. No other row repeats them.
    due_ms           BIGINT NOT NULL,
    waited_ms        BIGINT NOT NULL DEFAULT 0
);

-- Partial, so that operations at rest cost nothing.
CREATE INDEX operations_owing ON operations (tenant, due_ms, updated_at_ms) WHERE owes = 1;
CREATE INDEX operations_awaiting_approvals ON operations (created_at_ms) WHERE awaits_approvals = 1;
CREATE INDEX operations_pending ON operations (tenant, submitter) WHERE awaits_approvals = 1;
CREATE INDEX operations_awaiting_execution ON operations (updated_at_ms) WHERE state = 'admitted' AND owes = 0;
CREATE INDEX operations_postponed ON operations (resumes_at_ms) WHERE resumes_at_ms > 0;

-- Lists, newest first. Each index holds all that a list compares, in its order: a page reads as many rows as it shows, wherever in the
-- list it is.
CREATE INDEX operations_listed ON operations (tenant, family, created_at_ms, operation_id);
CREATE INDEX operations_in_state ON operations (tenant, family, state, created_at_ms, operation_id);
CREATE INDEX operations_on_key ON operations (key_id, family, created_at_ms, operation_id);
CREATE INDEX operations_undecided ON operations (tenant, family, created_at_ms, operation_id) WHERE awaits_approvals = 1;
-- Payments are of one kind.
CREATE INDEX operations_of_kind ON operations (tenant, (body::jsonb #>> '{intent,kind}'), created_at_ms, operation_id)
WHERE family = 'custody';

CREATE TABLE events (
    -- The event's leaf in the log, from 0. Events and activations together have no gaps.
    ledger_index BIGINT NOT NULL PRIMARY KEY,
    operation_id BYTEA  NOT NULL REFERENCES operations (operation_id),
    -- From 1: the operation's revision after the event.
    seq          BIGINT NOT NULL,
    event_hash   BYTEA  NOT NULL,
    -- 32 random bytes, zero where the event hides nothing. A reader of the salt can guess what an export hides.
    salt         BYTEA  NOT NULL,
    format       BIGINT NOT NULL,
    body         TEXT   COLLATE "C" NOT NULL,
    UNIQUE (operation_id, seq)
);

-- The operations that may have changed a key, found without reading the others. In the words of the statement that uses them.
CREATE INDEX events_changing_key ON events ((body::jsonb #>> '{change,key,key_id}'))
WHERE seq = 1 AND (body::jsonb #>> '{change,intent,kind}') NOT IN ('payment', 'asset_action');
CREATE INDEX events_making_successor ON events ((body::jsonb #>> '{change,successor,key_id}'))
WHERE seq = 1 AND (body::jsonb #>> '{change,intent,kind}') NOT IN ('payment', 'asset_action');

-- Inner nodes of the log (RFC 6962, section 2.1). Leaves follow from `events.event_hash` and `policy_activations.row_hash`.
CREATE TABLE ledger_nodes (
    -- 1 for the parent of two leaves.
    level    BIGINT NOT NULL,
    -- From 0 within the level.
    position BIGINT NOT NULL,
    hash     BYTEA  NOT NULL,
    PRIMARY KEY (level, position)
);

CREATE TABLE idempotency_claims (
    tenant          TEXT  COLLATE "C" NOT NULL,
    family          TEXT  COLLATE "C" NOT NULL,
    -- Empty for the product family, whose claims span keys.
    key_ref         TEXT  COLLATE "C" NOT NULL,
    idempotency_key TEXT  COLLATE "C" NOT NULL,
    operation_id    BYTEA NOT NULL PRIMARY KEY REFERENCES operations (operation_id)
);
-- By hash, since the four together can be longer than an entry of another index.
CREATE INDEX idempotency_claims_of ON idempotency_claims USING hash ((tenant || family || key_ref || idempotency_key));

CREATE TABLE custody_keys (
    key_id    BYTEA  NOT NULL PRIMARY KEY,
    tenant    TEXT   COLLATE "C" NOT NULL,
    key_ref   TEXT   COLLATE "C" NOT NULL,
    state     TEXT   COLLATE "C" NOT NULL,
    busy_with BYTEA  REFERENCES operations (operation_id),
    revision  BIGINT NOT NULL,
    format    BIGINT NOT NULL,
    -- The `CustodyKey`, with the times of its creation and of its epoch.
    body      TEXT   COLLATE "C" NOT NULL,
    UNIQUE (tenant, key_ref)
);

-- For callers whose tenant is unknown: the development bypass.
CREATE INDEX custody_keys_named ON custody_keys (key_ref);
-- `<threshold> <participants as JSON>` of a key that signs, null of others. Many keys have the same: a readiness probe finds each
-- combination once, without reading the keys.
CREATE INDEX custody_keys_quorum ON custody_keys (
    (CASE WHEN state IN ('active', 'refreshing', 'resharing', 'recovering', 'rotating')
    THEN (body::jsonb ->> 'threshold') || ' ' || (body::jsonb ->> 'participants') END)
);
CREATE INDEX custody_keys_listed ON custody_keys (tenant, ((body::jsonb ->> 'created_at_ms')::bigint), key_id);

-- Which custody operations each key has. A rotation is an operation of two keys. Rows are only added.
CREATE TABLE key_operations (
    -- No reference: the operation may be about a key that does not exist yet.
    key_id       BYTEA  NOT NULL,
    -- Of the operation's first event: later operations have higher ones.
    ledger_index BIGINT NOT NULL,
    operation_id BYTEA  NOT NULL REFERENCES operations (operation_id),
    PRIMARY KEY (key_id, ledger_index)
);

-- One row for each payment whose admission was decided and that did not fail since. All of it follows from the events.
CREATE TABLE spending (
    operation_id BYTEA  NOT NULL PRIMARY KEY REFERENCES operations (operation_id),
    tenant       TEXT   COLLATE "C" NOT NULL,
    account      TEXT   COLLATE "C" NOT NULL,
    recipient    TEXT   COLLATE "C" NOT NULL,
    -- The person, as people are compared.
    submitter    TEXT   COLLATE "C" NOT NULL,
    -- In hexadecimal.
    key_id       TEXT   COLLATE "C" NOT NULL,
    currency     TEXT   COLLATE "C" NOT NULL,
    -- When the decision was made.
    at_ms        BIGINT NOT NULL,
    -- Never below 0: a payment of less makes no room for others.
    amount_minor BIGINT NOT NULL
);

-- The oldest rows first.
CREATE INDEX spending_at ON spending (at_ms);

-- One row for each published payment, which proves that its key paid its recipient. All of it follows from the events. Rows are only
-- added: how long a recipient is known has no limit.
CREATE TABLE paid (
    operation_id BYTEA  NOT NULL PRIMARY KEY REFERENCES operations (operation_id),
    key_id       BYTEA  NOT NULL,
    recipient    TEXT   COLLATE "C" NOT NULL,
    -- From when the decision on it was valid.
    at_ms        BIGINT NOT NULL
);

CREATE INDEX paid_to_recipient ON paid (key_id, recipient, at_ms, operation_id);

-- How many rows a numbered table ever had, or the last sequence of an activation: a last row that is missing is noticed.
CREATE TABLE row_counters (
    name TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    seq  BIGINT NOT NULL
);

-- Evaluations that moved no operation, from 1 and without gaps.
CREATE TABLE policy_decisions (
    decision_index BIGINT NOT NULL PRIMARY KEY,
    at_ms          BIGINT NOT NULL,
    tenant         TEXT   COLLATE "C" NOT NULL,
    -- No reference: there may be no such operation.
    operation_id   BYTEA  NOT NULL,
    intent_hash    BYTEA  NOT NULL,
    format         BIGINT NOT NULL,
    -- The `ClientBinding`.
    submitter      TEXT   COLLATE "C" NOT NULL,
    -- Of the request that caused the evaluation; empty without one.
    request_id     TEXT   COLLATE "C" NOT NULL,
    idempotency_key TEXT   COLLATE "C" NOT NULL,
    -- Over index, instant, operation, request, input and outcome, from which the other columns follow.
    row_hash       BYTEA  NOT NULL,
    -- The policy's `Input` and `Outcome`.
    input          TEXT   COLLATE "C" NOT NULL,
    outcome        TEXT   COLLATE "C" NOT NULL
);

-- An evaluation that the gateway repeats by itself is kept once: its writer looks for it here.
CREATE INDEX policy_decisions_of ON policy_decisions (operation_id);
-- Those that a caller searches for.
CREATE INDEX policy_decisions_by_request ON policy_decisions (request_id);
CREATE INDEX policy_decisions_by_claim ON policy_decisions (idempotency_key);

-- Evaluations that a caller only previewed: the newest so many, without gaps.
CREATE TABLE policy_previews (
    preview_index BIGINT NOT NULL PRIMARY KEY,
    at_ms         BIGINT NOT NULL,
    format        BIGINT NOT NULL,
    -- Of the request; may be empty.
    request_id    TEXT   COLLATE "C" NOT NULL,
    -- Over index, instant, request, input and outcome.
    row_hash      BYTEA  NOT NULL,
    -- The policy's `Input` and `Outcome`.
    input         TEXT   COLLATE "C" NOT NULL,
    outcome       TEXT   COLLATE "C" NOT NULL
);

-- How far previews were dropped; no row before the first was.
CREATE TABLE policy_previews_dropped (
    id            BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    through_index BIGINT NOT NULL
);

-- How far rows of a table were deleted on purpose; no row before the first was. For `spending` the `at_ms` of the newest deleted row,
-- for `policy_decisions` the last deleted index.
CREATE TABLE rows_dropped (
    name    TEXT   COLLATE "C" NOT NULL PRIMARY KEY CHECK (name IN ('spending', 'policy_decisions')),
    through BIGINT NOT NULL
);

CREATE TABLE policy_bundles (
    bundle_hash BYTEA NOT NULL PRIMARY KEY,
    bundle_id   TEXT  COLLATE "C" NOT NULL,
    -- Over hash, id, and the names and hashes of all its files.
    row_hash    BYTEA NOT NULL
);

-- A bundle's files as they were signed, and its signatures, of which it may gain more.
CREATE TABLE policy_bundle_files (
    bundle_hash BYTEA NOT NULL REFERENCES policy_bundles (bundle_hash),
    name        TEXT  COLLATE "C" NOT NULL,
    bytes       BYTEA NOT NULL,
    -- Over the columns before it.
    row_hash    BYTEA NOT NULL,
    PRIMARY KEY (bundle_hash, name)
);

-- The last row is the high-water mark. Each row is an entry of the log, its `row_hash` the leaf: one that is removed leaves a
-- place that no entry has.
CREATE TABLE policy_activations (
    sequence     BIGINT NOT NULL PRIMARY KEY,
    at_ms        BIGINT NOT NULL,
    bundle_hash  BYTEA  NOT NULL REFERENCES policy_bundles (bundle_hash),
    kind         TEXT   COLLATE "C" NOT NULL CHECK (kind IN ('activate', 'rollback')),
    -- A JSON array of key ids.
    signers      TEXT   COLLATE "C" NOT NULL,
    reason       TEXT   COLLATE "C" NOT NULL,
    -- Over the `row_hash` before, zero at first, and the columns before it.
    row_hash     BYTEA  NOT NULL,
    -- Its leaf in the log.
    ledger_index BIGINT NOT NULL UNIQUE,
    -- The root of the log right after it.
    ledger_root  BYTEA  NOT NULL
);

-- What the gateway compares before it writes, required of every other program too.
-- The table is named by its id, since a session may have a temporary table of the same name.
CREATE FUNCTION policy_activations_only_rise() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    reached BIGINT;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        RAISE EXCEPTION 'activations are not changed or removed';
    END IF;
    EXECUTE format('SELECT max(sequence) FROM %s', TG_RELID::regclass) INTO reached;
    IF NEW.sequence <= reached THEN
        RAISE EXCEPTION 'activations only rise';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER policy_activations_rise BEFORE INSERT OR UPDATE OR DELETE ON policy_activations
FOR EACH ROW EXECUTE FUNCTION policy_activations_only_rise();
CREATE TRIGGER policy_activations_are_not_emptied BEFORE TRUNCATE ON policy_activations
FOR EACH STATEMENT EXECUTE FUNCTION policy_activations_only_rise();

-- The entries of the log, from 0 and without gaps.
CREATE VIEW ledger_leaves (ledger_index, hash) AS
SELECT ledger_index, event_hash FROM events UNION ALL SELECT ledger_index, row_hash FROM policy_activations;

-- One instant for each client that submitted recently (GCRA's theoretical arrival time), at which its quota is full again. A row
-- whose instant has passed is deleted in time.
CREATE TABLE admission_budgets (
    tenant     TEXT   COLLATE "C" NOT NULL,
    client_id  TEXT   COLLATE "C" NOT NULL,
    -- Microseconds since the epoch.
    full_at_us BIGINT NOT NULL,
    PRIMARY KEY (tenant, client_id)
);
CREATE INDEX admission_budgets_full ON admission_budgets (full_at_us);

-- Written by readiness probes, to know that the database can be written.
CREATE TABLE write_probe (
    id    BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    at_ms BIGINT NOT NULL
);

-- How far the log was sent to each webhook.
CREATE TABLE webhooks (
    name          TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    -- Whose events it gets; without one, those of all tenants.
    tenant        TEXT   COLLATE "C",
    -- Index in the log of the first event that was not sent yet.
    position      BIGINT NOT NULL CHECK (position >= 0),
    -- How often it was set back.
    resends       BIGINT NOT NULL DEFAULT 0,
    -- The process that sends, random of each start, and until when no other one does.
    holder        BYTEA  NOT NULL DEFAULT '',
    held_until_ms BIGINT NOT NULL DEFAULT 0,
    -- Why the last request was not accepted, and since when none was.
    failure       TEXT   COLLATE "C",
    failing_since_ms BIGINT
);

-- Events that a webhook refused, and that were passed over.
CREATE TABLE webhook_dead_letters (
    name          TEXT   COLLATE "C" NOT NULL REFERENCES webhooks (name),
    ledger_index  BIGINT NOT NULL,
    at_ms         BIGINT NOT NULL,
    why           TEXT   COLLATE "C" NOT NULL,
    PRIMARY KEY (name, ledger_index)
);

-- What replicas say of themselves. A replica that stops says so; one that dies leaves its row, which expires.
CREATE TABLE replicas (
    -- Random, of each start.
    replica      BYTEA       NOT NULL PRIMARY KEY,
    -- Of two that differ, the one that was here first is right.
    since        TIMESTAMPTZ NOT NULL,
    until        TIMESTAMPTZ NOT NULL,
    -- A JSON object: what all replicas must have in common.
    identity     TEXT        COLLATE "C" NOT NULL,
    -- Hash of the active policy bundle, and since when it is this one.
    policy       BYTEA,
    policy_since TIMESTAMPTZ NOT NULL
);

-- The oldest release that can use the schema, by the last migration that it knows. A migration that only adds leaves it, so that the
-- release before still starts during an update; one that takes away raises it, a release later.
CREATE TABLE schema_usable_from (
    id      BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    version BIGINT NOT NULL
);
INSERT INTO schema_usable_from (id, version) VALUES (1, 1);

-- The payments of `spending`, four times: for the account (0), the recipient (1), the submitter (2) and the key (3).
CREATE VIEW spending_parties AS
    SELECT operation_id, tenant, currency, CAST(0 AS BIGINT) AS party, account AS name, at_ms / 60000 AS minute,
        amount_minor >> 32 AS high, amount_minor & 4294967295 AS low FROM spending
    UNION ALL SELECT operation_id, tenant, currency, 1, recipient, at_ms / 60000,
        amount_minor >> 32, amount_minor & 4294967295 FROM spending
    UNION ALL SELECT operation_id, tenant, currency, 2, submitter, at_ms / 60000,
        amount_minor >> 32, amount_minor & 4294967295 FROM spending
    UNION ALL SELECT operation_id, tenant, currency, 3, key_id, at_ms / 60000,
        amount_minor >> 32, amount_minor & 4294967295 FROM spending;

-- For each party, and each minute in which a payment of it was decided: the payments up to the end of that minute, also those that were
-- dropped since. So a window is the difference of two rows, however many payments it has.
CREATE TABLE spending_sums (
    tenant   TEXT   COLLATE "C" NOT NULL,
    currency TEXT   COLLATE "C" NOT NULL,
    party    BIGINT NOT NULL,
    name     TEXT   COLLATE "C" NOT NULL,
    minute   BIGINT NOT NULL,
    -- The sums of the amounts' upper and lower 32 bits.
    high     BIGINT NOT NULL,
    low      BIGINT NOT NULL,
    n        BIGINT NOT NULL,
    PRIMARY KEY (tenant, currency, party, name, minute)
);

-- A payment counts in its minute, whose row begins with what there was before, and in all later ones.
CREATE FUNCTION spending_is_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO spending_sums (tenant, currency, party, name, minute, high, low, n)
    SELECT p.tenant, p.currency, p.party, p.name, p.minute, coalesce(b.high, 0), coalesce(b.low, 0), coalesce(b.n, 0)
    FROM spending_parties AS p LEFT JOIN spending_sums AS b
        ON b.tenant = p.tenant AND b.currency = p.currency AND b.party = p.party AND b.name = p.name
        AND b.minute = (SELECT max(s.minute) FROM spending_sums AS s WHERE s.tenant = p.tenant
            AND s.currency = p.currency AND s.party = p.party AND s.name = p.name AND s.minute <= p.minute)
    WHERE p.operation_id = NEW.operation_id AND b.minute IS DISTINCT FROM p.minute;
    UPDATE spending_sums
    SET high = spending_sums.high + p.high, low = spending_sums.low + p.low, n = spending_sums.n + 1
    FROM spending_parties AS p
    WHERE p.operation_id = NEW.operation_id AND spending_sums.tenant = p.tenant
        AND spending_sums.currency = p.currency AND spending_sums.party = p.party AND spending_sums.name = p.name
        AND spending_sums.minute >= p.minute;
    RETURN NULL;
END $$;

CREATE TRIGGER spending_is_added AFTER INSERT ON spending FOR EACH ROW EXECUTE FUNCTION spending_is_added();

-- A payment that failed counts no more. Of a party whose payment is dropped because of its age, one row stays to subtract from later ones,
-- while there are later payments.
CREATE FUNCTION spending_is_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.at_ms <= (SELECT through FROM rows_dropped WHERE name = 'spending') THEN
        DELETE FROM spending_sums WHERE (tenant, currency, party, name, minute) IN (
            SELECT s.tenant, s.currency, s.party, s.name, s.minute
            FROM spending_parties AS p
            JOIN spending_sums AS d ON d.tenant = p.tenant AND d.currency = p.currency AND d.party = p.party
                AND d.name = p.name AND d.minute = p.minute
            JOIN spending_sums AS s ON s.tenant = p.tenant AND s.currency = p.currency AND s.party = p.party
                AND s.name = p.name
                AND (s.minute < p.minute OR NOT EXISTS (
                    SELECT 1 FROM spending_sums AS l WHERE l.tenant = p.tenant AND l.currency = p.currency
                        AND l.party = p.party AND l.name = p.name AND l.minute > p.minute AND l.n <> d.n))
            WHERE p.operation_id = OLD.operation_id);
    ELSE
        UPDATE spending_sums
        SET high = spending_sums.high - p.high, low = spending_sums.low - p.low, n = spending_sums.n - 1
        FROM spending_parties AS p
        WHERE p.operation_id = OLD.operation_id AND spending_sums.tenant = p.tenant
            AND spending_sums.currency = p.currency AND spending_sums.party = p.party AND spending_sums.name = p.name
            AND spending_sums.minute >= p.minute;
        -- A party of which nothing else is known has no rows.
        DELETE FROM spending_sums WHERE n = 0 AND (tenant, currency, party, name, minute) IN (
            SELECT p.tenant, p.currency, p.party, p.name, p.minute FROM spending_parties AS p
            WHERE p.operation_id = OLD.operation_id);
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER spending_is_deleted BEFORE DELETE ON spending FOR EACH ROW EXECUTE FUNCTION spending_is_deleted();
