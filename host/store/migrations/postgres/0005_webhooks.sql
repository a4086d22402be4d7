-- How far the log was sent to each webhook. Never edited once released.

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
