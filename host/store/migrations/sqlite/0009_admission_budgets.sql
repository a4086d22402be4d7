-- What clients may still submit. Never edited once released.

-- One instant for each client that submitted lately (GCRA's theoretical arrival time): the budget is full again at it. A row
-- whose instant has passed says nothing, and is dropped by and by.
CREATE TABLE admission_budgets (
    tenant     TEXT    NOT NULL,
    client_id  TEXT    NOT NULL,
    -- Microseconds since the epoch.
    full_at_us INTEGER NOT NULL,
    PRIMARY KEY (tenant, client_id)
) STRICT, WITHOUT ROWID;

-- Those whose instant has passed.
CREATE INDEX admission_budgets_full ON admission_budgets (full_at_us);
