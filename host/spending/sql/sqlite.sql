-- The payments of `spending`, four times: for the account (0), the recipient (1), the submitter (2) and the key (3).
CREATE VIEW spending_parties AS
    SELECT operation_id, tenant, currency, 0 AS party, account AS name, at_ms / 60000 AS minute,
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
    tenant   TEXT    NOT NULL,
    currency TEXT    NOT NULL,
    party    INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    minute   INTEGER NOT NULL,
    -- The sums of the amounts' upper and lower 32 bits: SQLite fails if a sum exceeds 64 bits.
    high     INTEGER NOT NULL,
    low      INTEGER NOT NULL,
    n        INTEGER NOT NULL,
    PRIMARY KEY (tenant, currency, party, name, minute)
) STRICT, WITHOUT ROWID;

-- A payment counts in its minute, whose row begins with what there was before, and in all later ones.
CREATE TRIGGER spending_is_added AFTER INSERT ON spending BEGIN
    INSERT INTO spending_sums (tenant, currency, party, name, minute, high, low, n)
    SELECT p.tenant, p.currency, p.party, p.name, p.minute, coalesce(b.high, 0), coalesce(b.low, 0), coalesce(b.n, 0)
    FROM spending_parties AS p LEFT JOIN spending_sums AS b
        ON b.tenant = p.tenant AND b.currency = p.currency AND b.party = p.party AND b.name = p.name
        AND b.minute = (SELECT max(s.minute) FROM spending_sums AS s WHERE s.tenant = p.tenant
            AND s.currency = p.currency AND s.party = p.party AND s.name = p.name AND s.minute <= p.minute)
    WHERE p.operation_id = NEW.operation_id AND b.minute IS NOT p.minute;
    UPDATE spending_sums
    SET high = spending_sums.high + p.high, low = spending_sums.low + p.low, n = spending_sums.n + 1
    FROM spending_parties AS p
    WHERE p.operation_id = NEW.operation_id AND spending_sums.tenant = p.tenant
        AND spending_sums.currency = p.currency AND spending_sums.party = p.party AND spending_sums.name = p.name
        AND spending_sums.minute >= p.minute;
END;

-- A payment that failed counts no more.
CREATE TRIGGER spending_is_voided BEFORE DELETE ON spending
WHEN OLD.at_ms > coalesce((SELECT through FROM rows_dropped WHERE name = 'spending'), -1) BEGIN
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
END;

-- Of a party whose payment is dropped because of its age, one row stays to subtract from later ones, while there are later payments.
CREATE TRIGGER spending_is_dropped BEFORE DELETE ON spending
WHEN OLD.at_ms <= (SELECT through FROM rows_dropped WHERE name = 'spending') BEGIN
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
END;
