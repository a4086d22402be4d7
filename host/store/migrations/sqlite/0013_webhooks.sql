-- How far the log was sent to each webhook. Never edited once released.

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
