//! Writes one commit.

use crate::change::quota::{self, Quota};
use crate::change::script::Script;
use crate::change::write::Write;
use crate::record::encode::{KeyRow, Rows, Spending};
use crate::record::frontier::{Appended, LogFrontier};
use crate::sql::connection::Connection;
use crate::sql::row::{Cell, Row, blob};
use crate::sql::statements::Statements;
use gateway_domain::ids::Hex32;
use gateway_engine::Token;
use gateway_engine::ports::{RateLimited, SpendingRead};
use gateway_spending::TOTALS;
use std::fmt::Display;

/// Columns of an operation that never change.
pub(crate) const FIXED: [&str; 6] =
    ["operation_id", "tenant", "family", "key_id", "submitter", "created_at_ms"];

/// Returned by the first write, for a commit that takes no token.
const RETURNING: &str = " RETURNING CAST(0 AS BIGINT) AS full_at_us";

/// What else the insert of a key says: it may exist.
pub(crate) const SET_KEY: &str =
    " ON CONFLICT (key_id) DO UPDATE SET state = excluded.state, busy_with = excluded.busy_with,
    revision = excluded.revision, format = excluded.format, body = excluded.body";

/// When a changed operation is due, in SQL: at once, or when it was if it owed a step and did not wait. `stored` is its row before.
pub(crate) fn due_after(stored: &str, updated_at_ms: impl Display) -> String {
    format!(
        "CASE WHEN {stored}.owes = 1 AND {stored}.waited_ms = 0 THEN {stored}.due_ms ELSE {updated_at_ms} END"
    )
}

pub(crate) struct CommitWrite {
    pub(crate) rows: Rows,
    /// The token that a new operation takes from its client's quota; `None` for a commit that is not rate limited.
    pub(crate) token: Option<Token>,
}

impl Write for CommitWrite {
    /// The log's root after the commit.
    type Output = RateLimited<Hex32>;

    async fn run<C: Connection>(
        &self,
        conn: &mut C,
        log: &mut LogFrontier,
    ) -> Result<RateLimited<Hex32>, sqlx::Error> {
        if let Some(read) = &self.rows.spending_read {
            let mut rows = Vec::new();
            for bound in gateway_spending::bound(&read.parties, read.now) {
                rows.extend(conn.rows(TOTALS, &bound).await?);
            }
            if is_outdated(read, &rows) {
                return Ok(RateLimited::Conflict);
            }
        }
        let appended = log.append(self.rows.events.iter().map(|event| event.hash));
        let returned = self.script(conn.statements(), log.next_index(), &appended).run(conn).await?;
        let Some(full_at_us) = quota::full_at_us(&returned) else { return self.unwritten(conn).await };
        *log = appended.frontier;
        Ok(RateLimited::Written { written: appended.root, full_at_us })
    }
}

/// Whether the totals in these rows, of [`TOTALS`], are others than those that were read.
pub(crate) fn is_outdated(read: &SpendingRead, rows: &[Row]) -> bool {
    gateway_spending::totals(&read.parties, rows, read.now, None).as_ref() != Some(&read.totals)
}

impl CommitWrite {
    /// Finds out why nothing was written. If the operation exists, that is a conflict even when the quota is exhausted, because the
    /// submission is a replay.
    async fn unwritten<C: Connection>(&self, conn: &mut C) -> Result<RateLimited<Hex32>, sqlx::Error> {
        let Some(token) = &self.token else { return Ok(RateLimited::Conflict) };
        let sql = "SELECT operation_id FROM operations WHERE operation_id = $1";
        let exists = conn.rows(sql, &[blob(self.rows.id.0)]).await?;
        if exists.is_empty() { quota::unwritten(conn, token).await } else { Ok(RateLimited::Conflict) }
    }

    fn script(&self, statements: &'static Statements, first: i64, appended: &Appended) -> Script {
        let (rows, mut script) = (&self.rows, Script::new(statements));
        let quota = self.token.as_ref().map(|token| Quota::bind(&mut script, token));
        let conditions = self.conditions(quota.as_ref(), &mut script);
        if rows.revision_before == 0 {
            self.insert_operation(&conditions, appended.root, &mut script);
        } else {
            self.update_operation(&conditions, appended.root, &mut script);
        }
        for (index, event) in (first..).zip(&rows.events) {
            let columns = event.columns.iter().cloned().chain([("ledger_index", index.into())]);
            script.insert("events", columns, "");
        }
        script.nodes(appended);
        if let Some(claim) = &rows.claim {
            script.insert("idempotency_claims", claim.iter().cloned(), "");
        }
        for key in &rows.listed_keys {
            let columns =
                [("key_id", blob(key.0)), ("ledger_index", first.into()), ("operation_id", blob(rows.id.0))];
            script.insert("key_operations", columns, "");
        }
        for key in &rows.keys {
            script.insert("custody_keys", key.columns.iter().cloned(), SET_KEY);
        }
        if let Some(quota) = &quota {
            quota.take_if(statements.first_wrote, &mut script);
        }
        if let Some(columns) = &rows.paid {
            script.insert("paid", columns.iter().cloned(), "");
        }
        // Behind the writes that SQLite asks of one another whether they wrote: voiding a payment that was never counted writes nothing.
        match &rows.spending {
            None => {}
            Some(Spending::Admitted { columns, .. }) => {
                script.insert("spending", columns.iter().cloned(), "");
            }
            Some(Spending::Voided) => {
                let (id, is_written) = (script.bind(blob(rows.id.0)), statements.first_wrote);
                script.add(format!("DELETE FROM spending WHERE {is_written} AND operation_id = {id}"));
            }
        }
        if let Some(quota) = &quota {
            quota.drop_full(&mut script);
        }
        script
    }

    fn insert_operation(&self, conditions: &str, ledger_root: Hex32, script: &mut Script) {
        let columns = &self.rows.operation;
        let due = columns.iter().find(|(name, _)| *name == "updated_at_ms");
        let due = due.map_or(Cell::Null, |(_, updated_at_ms)| updated_at_ms.clone());
        let columns = columns.iter().cloned().chain([("ledger_root", blob(ledger_root)), ("due_ms", due)]);
        let end = format!(" ON CONFLICT (operation_id) DO NOTHING{RETURNING}");
        script.insert_if(conditions, "operations", columns, &end);
    }

    /// The stored `record_root` is the expected one for the right revision, unless the caller chained its events onto another event than
    /// the last one.
    fn update_operation(&self, conditions: &str, ledger_root: Hex32, script: &mut Script) {
        let changing = self.rows.operation.iter().filter(|(name, _)| !FIXED.contains(name)).cloned();
        let set = script.bind_all(changing.chain([("ledger_root", blob(ledger_root))]));
        let due = set.of("updated_at_ms");
        let due = due.map(|value| format!(", due_ms = {}", due_after("operations", value)));
        let (set, due, id) = (set.pairs(", "), due.unwrap_or_default(), script.bind(blob(self.rows.id.0)));
        let revision = script.bind(self.rows.revision_before);
        let record_root = script.bind(blob(self.rows.record_root_before));
        let sql = format!(
            "UPDATE operations SET {set}, waited_ms = 0{due} WHERE operation_id = {id} AND revision = {revision}
             AND record_root = {record_root} AND {conditions}{RETURNING}"
        );
        script.add(sql);
    }

    /// The conditions on other tables than `operations`.
    fn conditions(&self, quota: Option<&Quota>, script: &mut Script) -> String {
        let mut conditions = vec!["TRUE".to_owned()];
        conditions.extend(quota.map(Quota::has_token));
        if let Some(claim) = &self.rows.claim {
            let of_claim = claim.iter().filter(|(name, _)| *name != "operation_id").cloned();
            let claimed = script.bind_all(of_claim);
            let equal = claimed.pairs(" AND ");
            conditions.push(format!("NOT EXISTS (SELECT 1 FROM idempotency_claims WHERE {equal})"));
        }
        for KeyRow { id, revision_before, .. } in &self.rows.keys {
            let id = script.bind(blob(id.0));
            let key = format!("EXISTS (SELECT 1 FROM custody_keys WHERE key_id = {id}");
            conditions.push(match revision_before {
                Some(revision) => format!("{key} AND revision = {})", script.bind(*revision)),
                None => format!("NOT {key})"),
            });
        }
        conditions.join(" AND ")
    }
}
