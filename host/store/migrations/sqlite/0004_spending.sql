-- What was paid, for policies that limit velocity. Never edited once released.
--
-- One row for each payment whose admission was decided and that did not fail since: written in the transaction of the
-- decision, and removed in that of the failure. All of it follows from the events.
CREATE TABLE spending (
    operation_id BLOB    NOT NULL PRIMARY KEY REFERENCES operations (operation_id),
    tenant       TEXT    NOT NULL,
    account      TEXT    NOT NULL,
    recipient    TEXT    NOT NULL,
    currency     TEXT    NOT NULL,
    -- When the decision was made.
    at_ms        INTEGER NOT NULL,
    -- Never below 0: a payment of less makes no room for others.
    amount_minor INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Each has all that a sum needs, so that summing reads nothing else.
CREATE INDEX spending_of_account ON spending (tenant, account, currency, at_ms, amount_minor);
CREATE INDEX spending_to_recipient ON spending (tenant, recipient, currency, at_ms, amount_minor);

INSERT INTO spending (operation_id, tenant, account, recipient, currency, at_ms, amount_minor)
SELECT operation_id, tenant, operations.body ->> '$.intent.from_account', operations.body ->> '$.intent.to_account',
    operations.body ->> '$.intent.currency', events.body ->> '$.at_ms',
    max(operations.body ->> '$.intent.amount_minor', 0)
FROM operations JOIN events USING (operation_id)
WHERE family = 'product' AND state <> 'failed' AND events.body ->> '$.change.type' = 'decision_signed';
