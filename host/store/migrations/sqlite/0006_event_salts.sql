-- What each event's commitments are salted with. Never edited once released.
--
-- The hashes of events are over commitments from here on. Events of the unreleased versions before were hashed as they
-- were: nothing can be hashed again without breaking the chain, so a database that has any is refused by the NULL.

CREATE TABLE salted_events (
    -- The event's leaf in the log, from 0 and without gaps. The table's own order, so that an event is appended.
    ledger_index INTEGER NOT NULL PRIMARY KEY,
    operation_id BLOB    NOT NULL REFERENCES operations (operation_id),
    -- From 1: the operation's revision after the event.
    seq          INTEGER NOT NULL,
    event_hash   BLOB    NOT NULL,
    -- 32 random bytes, zero where the event hides nothing. Whoever has them can guess at what an export hides.
    salt         BLOB    NOT NULL,
    format       INTEGER NOT NULL,
    body         TEXT    NOT NULL,
    UNIQUE (operation_id, seq)
) STRICT;

INSERT INTO salted_events (ledger_index, operation_id, seq, event_hash, salt, format, body)
SELECT ledger_index, operation_id, seq, event_hash, NULL, format, body FROM events;

DROP TABLE events;
ALTER TABLE salted_events RENAME TO events;
