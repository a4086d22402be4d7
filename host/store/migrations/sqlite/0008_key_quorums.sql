-- What keys need of their nodes. Never edited once released.

-- `<threshold> <participants as JSON>` of a key that signs, null of others. Many keys have the same: a readiness probe
-- finds each combination once, without reading the keys.
CREATE INDEX custody_keys_quorum ON custody_keys (
    CASE WHEN state IN ('active', 'refreshing', 'resharing', 'recovering', 'rotating')
    THEN (body ->> '$.threshold') || ' ' || (body ->> '$.participants') END
);
