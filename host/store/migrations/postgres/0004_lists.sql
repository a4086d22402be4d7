-- Lists, newest first. Never edited once released.
--
-- Each index holds all that a list compares, in its order: a page reads as many rows as it shows, wherever in the list it is.

CREATE INDEX operations_listed ON operations (tenant, family, created_at_ms, operation_id);
CREATE INDEX operations_in_state ON operations (tenant, family, state, created_at_ms, operation_id);
CREATE INDEX operations_on_key ON operations (key_id, family, created_at_ms, operation_id);
CREATE INDEX operations_undecided ON operations (tenant, family, created_at_ms, operation_id) WHERE awaits_approvals = 1;
-- Payments are of one kind.
CREATE INDEX operations_of_kind ON operations (tenant, (body::jsonb #>> '{intent,kind}'), created_at_ms, operation_id)
WHERE family = 'custody';

CREATE INDEX custody_keys_listed ON custody_keys (tenant, ((body::jsonb ->> 'created_at_ms')::bigint), key_id);
