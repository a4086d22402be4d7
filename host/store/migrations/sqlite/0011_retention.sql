-- Rows that are deleted once no decision needs them. Never edited once released.

-- The oldest rows first.
CREATE INDEX spending_at ON spending (at_ms);

-- How far rows of a table were deleted on purpose; no row before the first was. For `spending` the `at_ms` of the newest deleted row,
-- for `policy_decisions` the last deleted index.
CREATE TABLE rows_dropped (
    name    TEXT    NOT NULL PRIMARY KEY CHECK (name IN ('spending', 'policy_decisions')),
    through INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
