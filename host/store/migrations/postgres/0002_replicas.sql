-- What replicas say of themselves, and which releases may use the schema. Never edited once released.

-- A replica that stops says so; one that dies leaves its row, which expires.
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
