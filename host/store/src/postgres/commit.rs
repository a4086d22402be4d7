//! Writes one commit as one statement: each round trip to the server keeps the log locked for longer.
//!
//! The first part of the statement has all conditions, and the other parts write only if it wrote its row. So a commit with a version
//! conflict writes nothing, and needs no rollback. No other commit runs at the same time, since each holds the end of the log.

use crate::postgres::job::{Job, NodeColumns};
use crate::record::encode::{FORMAT, KeyRow, Rows, Spending, SpendingRow, TokenRow};
use crate::record::frontier::{Appended, LogFrontier};
use gateway_domain::ids::Hex32;
use gateway_engine::ports::RateLimited;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

pub(super) struct CommitJob {
    pub(super) rows: Rows,
    /// The token that a new operation takes from its client's quota; `None` for a commit that is not rate limited.
    pub(super) token: Option<TokenRow>,
}

/// The conditions on other tables than `operations`.
macro_rules! conditions {
    () => {
        "($41 IS NULL OR NOT EXISTS (SELECT 1 FROM admission_budgets
            WHERE tenant = $41 AND client_id = $42 AND full_at_us > $45 AND full_at_us <= $46))
        AND NOT EXISTS (SELECT 1 FROM idempotency_claims
            WHERE tenant || family || key_ref || idempotency_key = $2 || $3 || $24 || $25
            AND tenant = $2 AND family = $3 AND key_ref = $24 AND idempotency_key = $25)
        AND NOT EXISTS (SELECT 1 FROM unnest($27, $32) AS expected (key_id, revision)
            LEFT JOIN custody_keys ON custody_keys.key_id = expected.key_id
            WHERE custody_keys.revision IS DISTINCT FROM expected.revision)"
    };
}

/// The writes that follow from the operation's.
macro_rules! rest {
    () => {
        ", new_events AS (
            INSERT INTO events (ledger_index, operation_id, seq, event_hash, salt, format, body)
            SELECT $17 + n - 1, operation_id, $8 + n, hash, salt, $15, event_body FROM operation
            CROSS JOIN unnest($18, $19, $20) WITH ORDINALITY AS added (hash, salt, event_body, n)),
        new_nodes AS (
            INSERT INTO ledger_nodes (level, position, hash)
            SELECT added.level, added.position, added.hash FROM operation
            CROSS JOIN unnest($21, $22, $23) AS added (level, position, hash)),
        new_claim AS (
            INSERT INTO idempotency_claims (tenant, family, key_ref, idempotency_key, operation_id)
            SELECT $2, $3, $24, $25, operation_id FROM operation WHERE $25 IS NOT NULL),
        listed AS (
            INSERT INTO key_operations (key_id, ledger_index, operation_id)
            SELECT listed_key, $17, operation_id FROM operation CROSS JOIN unnest($26) AS listed_key),
        new_keys AS (
            INSERT INTO custody_keys (key_id, tenant, key_ref, state, busy_with, revision, format, body)
            SELECT added.key_id, added.tenant, added.key_ref, added.state, added.busy_with, added.revision, $15, added.body
            FROM operation CROSS JOIN unnest($27, $28, $29, $30, $31, $33, $34)
                AS added (key_id, tenant, key_ref, state, busy_with, revision, body)
            ON CONFLICT (key_id) DO UPDATE SET state = excluded.state, busy_with = excluded.busy_with,
                revision = excluded.revision, format = excluded.format, body = excluded.body),
        spent AS (
            INSERT INTO spending (operation_id, tenant, account, recipient, currency, at_ms, amount_minor)
            SELECT operation_id, $2, $35, $36, $37, $38, $39 FROM operation WHERE $35 IS NOT NULL),
        voided AS (
            DELETE FROM spending WHERE $40 AND operation_id IN (SELECT operation_id FROM operation)),
        taken AS (
            INSERT INTO admission_budgets (tenant, client_id, full_at_us)
            SELECT $41, $42, $43 + $44 FROM operation WHERE $41 IS NOT NULL
            ON CONFLICT (tenant, client_id) DO UPDATE
            SET full_at_us = least(greatest(admission_budgets.full_at_us, $43), $45) + $44
            RETURNING full_at_us),
        dropped AS (
            DELETE FROM admission_budgets WHERE (tenant, client_id) IN (
                SELECT tenant, client_id FROM admission_budgets
                WHERE full_at_us <= $43 AND (tenant, client_id) <> ($41, $42) ORDER BY full_at_us LIMIT 2))
        SELECT (SELECT count(*) FROM operation) AS n_written, (SELECT full_at_us FROM taken) AS full_at_us"
    };
}

const INSERT: &str = concat!(
    "WITH operation AS (
        INSERT INTO operations (operation_id, tenant, family, key_id, state, owes, awaits_approvals, revision, record_root,
            ledger_root, created_at_ms, updated_at_ms, format, body, due_ms)
        SELECT $1, $2, $3, $4, $5, $6, $7, $9, $11, $12, $13, $14, $15, $16, $14 WHERE ",
    conditions!(),
    " ON CONFLICT (operation_id) DO NOTHING RETURNING operation_id)",
    rest!()
);

/// `record_root` is the expected one for the right revision, unless the caller chained its events onto another event.
const UPDATE: &str = concat!(
    "WITH operation AS (
        UPDATE operations SET state = $5, owes = $6, awaits_approvals = $7, revision = $9, record_root = $11,
            ledger_root = $12, updated_at_ms = $14, format = $15, body = $16, waited_ms = 0,
            due_ms = CASE WHEN owes = 1 AND waited_ms = 0 THEN due_ms ELSE $14 END
        WHERE operation_id = $1 AND revision = $8 AND record_root = $10 AND ",
    conditions!(),
    " RETURNING operation_id)",
    rest!()
);

impl Job for CommitJob {
    /// The log's root after the commit.
    type Output = RateLimited<Hex32>;

    async fn apply(
        &self,
        conn: &mut PgConnection,
        log: &mut LogFrontier,
    ) -> Result<RateLimited<Hex32>, sqlx::Error> {
        if let Some(spending) = &self.rows.spending_read
            && spending.is_outdated(conn).await?
        {
            return Ok(RateLimited::Conflict);
        }
        let appended = log.append(self.rows.events.iter().map(|event| event.hash));
        let written = self.write(conn, log.next_index(), &appended).await?;
        if written.try_get::<i64, _>("n_written")? == 0 {
            return self.unwritten(conn).await;
        }
        *log = appended.frontier;
        let full_at_us = written.try_get::<Option<i64>, _>("full_at_us")?.map(unsigned).unwrap_or_default();
        Ok(RateLimited::Written { written: appended.root, full_at_us })
    }
}

impl CommitJob {
    async fn write(
        &self,
        conn: &mut PgConnection,
        first: i64,
        appended: &Appended,
    ) -> Result<PgRow, sqlx::Error> {
        let Rows { operation: row, events, keys, listed_keys, claim, spending, spending_read: _ } =
            &self.rows;
        let query = sqlx::query(if row.revision_before == 0 { INSERT } else { UPDATE });
        let query = query.bind(bytes(&row.id.0)).bind(row.tenant.as_str()).bind(row.family);
        let query = query.bind(bytes(&row.key_id.0)).bind(row.state);
        let query = query.bind(i64::from(row.owes)).bind(i64::from(row.awaits_approvals));
        let query = query.bind(row.revision_before).bind(row.revision);
        let query = query.bind(bytes(&row.record_root_before)).bind(bytes(&row.record_root));
        let query = query.bind(bytes(&appended.root)).bind(row.created_at_ms).bind(row.updated_at_ms);
        let query = query.bind(FORMAT).bind(row.body.as_str()).bind(first);

        let query = query.bind(events.iter().map(|event| bytes(&event.hash)).collect::<Vec<_>>());
        let query = query.bind(events.iter().map(|event| &event.salt.as_bytes()[..]).collect::<Vec<_>>());
        let query = query.bind(events.iter().map(|event| event.body.as_str()).collect::<Vec<_>>());
        let NodeColumns { levels, positions, hashes } = NodeColumns::of(appended);
        let query = query.bind(levels).bind(positions).bind(hashes);

        let query = query.bind(claim.as_ref().map(|claim| claim.key_ref.as_str()));
        let query = query.bind(claim.as_ref().map(|claim| claim.idempotency_key.as_str()));
        let query = query.bind(listed_keys.iter().map(|id| bytes(&id.0)).collect::<Vec<_>>());
        let query = query.bind(keys.iter().map(|key| bytes(&key.id.0)).collect::<Vec<_>>());
        let texts = |text: fn(&KeyRow) -> &str| keys.iter().map(text).collect::<Vec<_>>();
        let query =
            query.bind(texts(|key| &key.tenant)).bind(texts(|key| &key.key_ref)).bind(texts(|key| key.state));
        let busy_with = keys.iter().map(|key| key.busy_with.as_ref().map(|id| bytes(&id.0)));
        let query = query.bind(busy_with.collect::<Vec<_>>());
        let query = query.bind(keys.iter().map(|key| key.revision_before).collect::<Vec<_>>());
        let query = query.bind(keys.iter().map(|key| key.revision).collect::<Vec<_>>());
        let query = query.bind(texts(|key| &key.body));

        let (spent, is_voided) = match spending {
            Some(Spending::Admitted(row)) => (Some(row), false),
            Some(Spending::Voided) => (None, true),
            None => (None, false),
        };
        let text = |text: fn(&SpendingRow) -> &str| spent.map(text);
        let query = query
            .bind(text(|row| &row.account))
            .bind(text(|row| &row.recipient))
            .bind(text(|row| &row.currency));
        let query =
            query.bind(spent.map(|row| row.at_ms)).bind(spent.map(|row| row.amount_minor)).bind(is_voided);

        let token = self.token.as_ref();
        let query = query
            .bind(token.map(|token| token.tenant.as_str()))
            .bind(token.map(|token| token.client_id.as_str()));
        let query = query.bind(token.map(|token| token.now_us)).bind(token.map(|token| token.increment_us));
        let query =
            query.bind(token.map(|token| token.latest_us)).bind(token.map(|token| token.trusted_until_us));
        query.fetch_one(conn).await
    }

    /// Finds out why nothing was written. If the operation exists, that is a conflict even when the quota is exhausted, because the
    /// submission is a replay.
    async fn unwritten(&self, conn: &mut PgConnection) -> Result<RateLimited<Hex32>, sqlx::Error> {
        let Some(token) = &self.token else { return Ok(RateLimited::Conflict) };
        let sql = "SELECT EXISTS (SELECT 1 FROM operations WHERE operation_id = $1)";
        let exists =
            sqlx::query_scalar(sql).bind(bytes(&self.rows.operation.id.0)).fetch_one(&mut *conn).await?;
        if exists { Ok(RateLimited::Conflict) } else { exhausted(conn, token).await }
    }
}

/// The answer for a quota without a token; a conflict if it has one after all.
pub(super) async fn exhausted<T>(
    conn: &mut PgConnection,
    token: &TokenRow,
) -> Result<RateLimited<T>, sqlx::Error> {
    let sql = "SELECT full_at_us FROM admission_budgets
        WHERE tenant = $1 AND client_id = $2 AND full_at_us > $3 AND full_at_us <= $4";
    let query = sqlx::query_scalar(sql).bind(token.tenant.as_str()).bind(token.client_id.as_str());
    let row = query.bind(token.latest_us).bind(token.trusted_until_us).fetch_optional(conn).await?;
    let exhausted = |full_at_us| RateLimited::Exhausted { full_at_us: unsigned(full_at_us) };
    Ok(row.map_or(RateLimited::Conflict, exhausted))
}

pub(super) fn unsigned(full_at_us: i64) -> u64 {
    u64::try_from(full_at_us).unwrap_or_default()
}

fn bytes(hash: &Hex32) -> &[u8] {
    hash.as_bytes()
}
