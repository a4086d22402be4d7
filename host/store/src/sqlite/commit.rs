//! Writes one commit as one SQL text: each round trip to SQLite's thread costs more than the statements.
//!
//! The first statement has all conditions. The following ones write only if `changes() > 0`, that is, if the
//! statement before wrote something. So a commit with a version conflict writes nothing, and needs no rollback.

use crate::record::encode::{ClaimRow, FORMAT, KeyRow, OperationRow, Rows, Spending, TokenRow, integer};
use crate::record::frontier::{Appended, LogFrontier};
use crate::sqlite::quota;
use gateway_domain::ids::Hex32;
use gateway_domain::log::Completed;
use gateway_engine::ports::RateLimited;
use gateway_sqlite::Job;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct CommitJob {
    pub(super) rows: Rows,
    /// The token that a new operation takes from its client's quota; `None` for a commit that is not rate limited.
    pub(super) token: Option<TokenRow>,
    pub(super) n_statements: Arc<AtomicU64>,
}

impl Job for CommitJob {
    type State = LogFrontier;
    /// The log's root after the commit.
    type Output = RateLimited<Hex32>;

    async fn apply(
        &self,
        conn: &mut SqliteConnection,
        log: &mut LogFrontier,
    ) -> Result<RateLimited<Hex32>, sqlx::Error> {
        if let Some(spending) = &self.rows.spending_read
            && spending.is_outdated(conn).await?
        {
            return Ok(RateLimited::Conflict);
        }
        let appended = log.append(self.rows.events.iter().map(|event| event.hash));
        let mut script = Script::default();
        script.write(&self.rows, self.token.as_ref(), log.next_index(), &appended);
        let n_statements = script.n_statements;
        // `Some` if the commit was written: the instant at which the quota is full again, 0 without a quota.
        let written = match &self.token {
            None => {
                let n_rows = script.text.build().execute(&mut *conn).await?.rows_affected();
                (n_rows > 0).then_some(0)
            }
            Some(_) => quota::run(script.text, conn).await?,
        };
        self.n_statements.fetch_add(n_statements, Ordering::Relaxed);
        let Some(full_at_us) = written else { return self.unwritten(conn).await };
        *log = appended.frontier;
        Ok(RateLimited::Written { written: appended.root, full_at_us })
    }
}

impl CommitJob {
    /// Finds out why nothing was written. If the operation exists, that is a conflict even when the quota is
    /// exhausted, because the submission is a replay.
    async fn unwritten(&self, conn: &mut SqliteConnection) -> Result<RateLimited<Hex32>, sqlx::Error> {
        let Some(token) = &self.token else { return Ok(RateLimited::Conflict) };
        let exists = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM operations WHERE operation_id = ?1)")
            .bind(bytes(&self.rows.operation.id.0))
            .fetch_one(&mut *conn);
        if exists.await? {
            return Ok(RateLimited::Conflict);
        }
        let exhausted = quota::exhausted(conn, token).await?;
        Ok(exhausted.map_or(RateLimited::Conflict, |full_at_us| RateLimited::Exhausted { full_at_us }))
    }
}

/// SQL with its bound values, in the same order.
#[derive(Default)]
struct Script {
    text: QueryBuilder<Sqlite>,
    n_statements: u64,
}

impl Script {
    fn write(&mut self, rows: &Rows, token: Option<&TokenRow>, first: i64, appended: &Appended) {
        if rows.operation.revision_before == 0 {
            self.operation_insert(rows, token, appended.root);
        } else {
            self.operation_update(rows, token, appended.root);
        }
        self.events(rows, first);
        if !appended.nodes.is_empty() {
            self.ledger_nodes(&appended.nodes);
        }
        if let Some(claim) = &rows.claim {
            self.claim(&rows.operation, claim);
        }
        if !rows.listed_keys.is_empty() {
            self.listed_keys(rows, first);
        }
        for key in &rows.keys {
            self.key(key);
        }
        if let Some(token) = token {
            self.begin("");
            quota::take(&mut self.text, token, |text| {
                text.push("changes() > 0");
            });
        }
        // After the statements that depend on `changes()`: voiding a payment that was never counted writes nothing.
        if let Some(spending) = &rows.spending {
            self.spending(&rows.operation, spending);
        }
        if let Some(token) = token {
            self.begin("");
            quota::drop_full(&mut self.text, token);
        }
    }

    fn begin(&mut self, sql: &str) {
        self.text.push(sql);
        self.n_statements = self.n_statements.saturating_add(1);
    }

    fn operation_insert(&mut self, rows: &Rows, token: Option<&TokenRow>, ledger_root: Hex32) {
        let row = &rows.operation;
        self.begin(
            "INSERT INTO operations (operation_id, tenant, family, key_id, state, owes, awaits_approvals, revision,
             record_root, ledger_root, created_at_ms, updated_at_ms, format, body, due_ms) SELECT ",
        );
        let mut values = self.text.separated(", ");
        values.push_bind(bytes(&row.id.0)).push_bind(row.tenant.as_str()).push_bind(row.family);
        values.push_bind(bytes(&row.key_id.0)).push_bind(row.state);
        values.push_bind(row.owes).push_bind(row.awaits_approvals).push_bind(row.revision);
        values.push_bind(bytes(&row.record_root)).push_bind(bytes(&ledger_root));
        values.push_bind(row.created_at_ms).push_bind(row.updated_at_ms);
        values.push_bind(FORMAT).push_bind(row.body.as_str()).push_bind(row.updated_at_ms);
        self.text.push(" WHERE true");
        self.conditions(rows, token);
        self.text.push(" ON CONFLICT (operation_id) DO NOTHING;\n");
    }

    fn operation_update(&mut self, rows: &Rows, token: Option<&TokenRow>, ledger_root: Hex32) {
        let row = &rows.operation;
        self.begin("UPDATE operations SET ");
        let mut values = self.text.separated(", ");
        values.push("due_ms = CASE WHEN owes = 1 AND waited_ms = 0 THEN due_ms ELSE ");
        values.push_bind_unseparated(row.updated_at_ms).push_unseparated(" END").push("waited_ms = 0");
        values.push("state = ").push_bind_unseparated(row.state);
        values.push("owes = ").push_bind_unseparated(row.owes);
        values.push("awaits_approvals = ").push_bind_unseparated(row.awaits_approvals);
        values.push("revision = ").push_bind_unseparated(row.revision);
        values.push("record_root = ").push_bind_unseparated(bytes(&row.record_root));
        values.push("ledger_root = ").push_bind_unseparated(bytes(&ledger_root));
        values.push("updated_at_ms = ").push_bind_unseparated(row.updated_at_ms);
        values.push("format = ").push_bind_unseparated(FORMAT);
        values.push("body = ").push_bind_unseparated(row.body.as_str());
        self.text.push(" WHERE operation_id = ").push_bind(bytes(&row.id.0));
        self.text.push(" AND revision = ").push_bind(row.revision_before);
        // Always true for the right revision, unless the caller chained its events onto another event than the last one.
        self.text.push(" AND record_root = ").push_bind(bytes(&row.record_root_before));
        self.conditions(rows, token);
        self.text.push(";\n");
    }

    /// Adds the conditions on other tables.
    fn conditions(&mut self, rows: &Rows, token: Option<&TokenRow>) {
        if let Some(token) = token {
            self.text.push(" AND ");
            quota::has_token(&mut self.text, token);
        }
        if let Some(claim) = &rows.claim {
            self.text.push(" AND NOT EXISTS (SELECT 1 FROM idempotency_claims WHERE tenant = ");
            self.text.push_bind(rows.operation.tenant.as_str());
            self.text.push(" AND family = ").push_bind(rows.operation.family);
            self.text.push(" AND key_ref = ").push_bind(claim.key_ref.as_str());
            self.text.push(" AND idempotency_key = ").push_bind(claim.idempotency_key.as_str()).push(")");
        }
        for key in &rows.keys {
            let exists = if key.revision_before.is_some() { " AND EXISTS" } else { " AND NOT EXISTS" };
            self.text.push(exists).push(" (SELECT 1 FROM custody_keys WHERE key_id = ");
            self.text.push_bind(bytes(&key.id.0));
            if let Some(revision) = key.revision_before {
                self.text.push(" AND revision = ").push_bind(revision);
            }
            self.text.push(")");
        }
    }

    fn events(&mut self, rows: &Rows, first: i64) {
        self.begin(
            "INSERT INTO events (ledger_index, operation_id, seq, event_hash, salt, format, body)
             SELECT column1, column2, column3, column4, column5, column6, column7 FROM (",
        );
        self.text.push_values((first..).zip(&rows.events), |mut values, (ledger_index, event)| {
            values.push_bind(ledger_index).push_bind(bytes(&rows.operation.id.0)).push_bind(event.seq);
            values.push_bind(bytes(&event.hash)).push_bind(&event.salt.as_bytes()[..]);
            values.push_bind(FORMAT).push_bind(event.body.as_str());
        });
        self.text.push(") WHERE changes() > 0;\n");
    }

    fn ledger_nodes(&mut self, nodes: &[Completed]) {
        self.begin(
            "INSERT INTO ledger_nodes (level, position, hash) SELECT column1, column2, column3 FROM (",
        );
        self.text.push_values(nodes, |mut values, node| {
            values.push_bind(node.level).push_bind(integer(node.index)).push_bind(bytes(&node.hash));
        });
        self.text.push(") WHERE changes() > 0;\n");
    }

    fn claim(&mut self, operation: &OperationRow, claim: &ClaimRow) {
        self.begin(
            "INSERT INTO idempotency_claims (tenant, family, key_ref, idempotency_key, operation_id) SELECT ",
        );
        let mut values = self.text.separated(", ");
        values.push_bind(operation.tenant.as_str()).push_bind(operation.family);
        values.push_bind(claim.key_ref.as_str()).push_bind(claim.idempotency_key.as_str());
        values.push_bind(bytes(&operation.id.0));
        self.text.push(" WHERE changes() > 0;\n");
    }

    fn listed_keys(&mut self, rows: &Rows, first: i64) {
        self.begin(
            "INSERT INTO key_operations (key_id, ledger_index, operation_id) SELECT column1, column2, column3 FROM (",
        );
        self.text.push_values(&rows.listed_keys, |mut values, key_id| {
            values.push_bind(bytes(&key_id.0)).push_bind(first).push_bind(bytes(&rows.operation.id.0));
        });
        self.text.push(") WHERE changes() > 0;\n");
    }

    fn key(&mut self, key: &KeyRow) {
        self.begin(
            "INSERT INTO custody_keys (key_id, tenant, key_ref, state, busy_with, revision, format, body) SELECT ",
        );
        let mut values = self.text.separated(", ");
        values.push_bind(bytes(&key.id.0)).push_bind(key.tenant.as_str()).push_bind(key.key_ref.as_str());
        values.push_bind(key.state).push_bind(key.busy_with.as_ref().map(|id| bytes(&id.0)));
        values.push_bind(key.revision).push_bind(FORMAT).push_bind(key.body.as_str());
        self.text.push(
            " WHERE changes() > 0 ON CONFLICT (key_id) DO UPDATE SET state = excluded.state,
             busy_with = excluded.busy_with, revision = excluded.revision, format = excluded.format,
             body = excluded.body;\n",
        );
    }

    fn spending(&mut self, operation: &OperationRow, spending: &Spending) {
        let row = match spending {
            Spending::Admitted(row) => row,
            Spending::Voided => {
                self.begin("DELETE FROM spending WHERE changes() > 0 AND operation_id = ");
                self.text.push_bind(bytes(&operation.id.0)).push(";\n");
                return;
            }
        };
        self.begin(
            "INSERT INTO spending (operation_id, tenant, account, recipient, currency, at_ms, amount_minor) SELECT ",
        );
        let mut values = self.text.separated(", ");
        values.push_bind(bytes(&operation.id.0)).push_bind(operation.tenant.as_str());
        values.push_bind(row.account.as_str()).push_bind(row.recipient.as_str());
        values.push_bind(row.currency.as_str()).push_bind(row.at_ms).push_bind(row.amount_minor);
        self.text.push(" WHERE changes() > 0;\n");
    }
}

fn bytes(hash: &Hex32) -> &[u8] {
    hash.as_bytes()
}
