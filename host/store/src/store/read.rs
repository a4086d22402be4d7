//! Reads on the read-only connections. `checked` reads operations and keys.

use crate::database::Pool;
use crate::error::{failed, unavailable};
use crate::record::decode;
use crate::record::encode::key_columns;
use crate::sql::connection::Connection as _;
use crate::sql::row::{Cell, Hashes, Row, blob, blob_or_first, instant, integer};
use crate::sql::statements::Statements;
use crate::store::Store;
use crate::store::work;
use async_trait::async_trait;
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::{KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::key::CustodyKey;
use gateway_domain::names::compared;
use gateway_domain::policy::spending::Parties;
use gateway_domain::policy::{PaidProof, SpendingTotals};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{Damage, Due, KeyQuorum, ReadError, ReadOperations, Record, Subject};
use gateway_engine::{Unavailable, Visibility};
use gateway_spending::TOTALS;
use tracing::Instrument;

const REVISION: &str = "SELECT revision, record_root FROM operations WHERE operation_id = $1";
const KEY_ROW: &str = "SELECT revision, body FROM custody_keys WHERE key_id = $1";
const EVENTS: &str = "SELECT format, event_hash, salt, body FROM events WHERE operation_id = $1 ORDER BY seq";
const KEY_OPERATIONS: &str = "SELECT ledger_index, operation_id FROM key_operations
    WHERE key_id = $1 AND ledger_index < $2 ORDER BY ledger_index DESC LIMIT $3";
const KEYS_NAMED: &str = "SELECT key_id FROM custody_keys WHERE key_ref = $1 ORDER BY key_id LIMIT $2";
/// The empty blob sorts before every id.
const KEYS_AFTER: &str = "SELECT key_id, body FROM custody_keys
    WHERE key_id > $1 ORDER BY key_id LIMIT $2";
/// The first ones, which are the same for each evaluation.
pub(crate) const PAID_TO: &str = "SELECT operation_id FROM paid
    WHERE key_id = $1 AND recipient = $2 ORDER BY at_ms, operation_id LIMIT $3";
pub(crate) const PENDING: &str = "SELECT operation_id, tenant, waited_ms FROM operations
    WHERE awaits_approvals = 1 AND created_at_ms < $1 AND (due_ms <= $2 OR due_ms > $3)
    ORDER BY created_at_ms LIMIT $4";
pub(crate) const ADMITTED: &str = "SELECT operation_id, tenant, waited_ms FROM operations
    WHERE state = 'admitted' AND owes = 0 AND updated_at_ms < $1 AND (due_ms <= $2 OR due_ms > $3)
    ORDER BY updated_at_ms LIMIT $4";
pub(crate) const POSTPONED: &str = "SELECT operation_id, tenant, waited_ms FROM operations
    WHERE resumes_at_ms > 0 AND resumes_at_ms <= $1 AND (due_ms <= $2 OR due_ms > $3)
    ORDER BY resumes_at_ms LIMIT $4";

/// The empty blob sorts before every id.
const ENDED: &str = "SELECT operation_id FROM operations
    WHERE operation_id > $1 AND state IN ('published', 'failed') AND updated_at_ms >= $2 AND updated_at_ms < $3
    ORDER BY operation_id LIMIT $4";

/// At most `$1` different quorums of keys that sign, from one to the next in an index.
pub(crate) fn key_quorums(Statements { key_quorum, .. }: &Statements) -> String {
    format!(
        "WITH RECURSIVE quorums (quorum) AS (SELECT '' UNION ALL SELECT (
             SELECT {key_quorum} FROM custody_keys WHERE {key_quorum} > quorum ORDER BY {key_quorum} LIMIT 1)
         FROM quorums WHERE quorum IS NOT NULL) SELECT quorum FROM quorums WHERE quorum > '' LIMIT $1"
    )
}

const UNFINISHED: &str = "SELECT count(*) AS n_operations, coalesce(min(updated_at_ms), 0) AS since FROM operations WHERE owes = 1";

/// The operations that owe a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Their number.
    pub n_operations: u64,
    /// The time of the last change of the one that is unchanged for longest; `None` without operations.
    pub unchanged_since: Option<EpochMs>,
}

impl Store {
    /// The operations that owe a step, for metrics.
    pub async fn unfinished(&self) -> Result<Unfinished, Unavailable> {
        let what = "the unfinished operations could not be counted";
        let rows = self.database.pool().rows(UNFINISHED, &[], what).await?;
        let integer = |name| match rows.first() {
            Some(row) => decode::integer("the unfinished operations", row, name).map(i64::unsigned_abs),
            None => Ok(0),
        };
        let (n_operations, since) = (integer("n_operations")?, integer("since")?);
        Ok(Unfinished { n_operations, unchanged_since: (n_operations > 0).then_some(EpochMs(since)) })
    }

    /// The operation from the cache, or else from the database. Another tenant's is a miss in both, so that an unknown one takes as long.
    async fn operation(&self, id: OperationId, tenant: Option<&Tenant>) -> Result<Option<Record>, ReadError> {
        let is_theirs = |record: &Record| tenant.is_none_or(|tenant| *tenant == record.operation.tenant);
        let start = match self.operations.get_if(id, is_theirs) {
            Ok(record) if self.is_current(&record).await? => return Ok(Some(record)),
            Ok(_) => self.operations.start(),
            Err(start) => start,
        };
        let span = tracing::info_span!(target: "trace", "store.read", operation_id = %id);
        let record = self.operation_checked(id, tenant).instrument(span).await?;
        if let Some(record) = &record {
            self.operations.fill(start, id, record.clone());
        }
        Ok(record)
    }

    /// Whether the stored operation is still the cached one. Only another process could have changed it.
    async fn is_current(&self, cached: &Record) -> Result<bool, Unavailable> {
        if !self.database.is_shared() {
            return Ok(true);
        }
        let id = cached.operation.id;
        let what = format!("operation `{id}` could not be read");
        let rows = self.database.pool().rows(REVISION, &[blob(id.0)], what).await?;
        let is_current = |row: &Row| {
            row.integer("revision") == Some(integer(cached.operation.revision))
                && row.hash("record_root") == Some(cached.record_root)
        };
        Ok(rows.first().is_some_and(is_current))
    }

    /// As [`Self::is_current`], for a key.
    async fn is_current_key(&self, id: KeyId, cached: Option<&CustodyKey>) -> Result<bool, Unavailable> {
        if !self.database.is_shared() {
            return Ok(true);
        }
        let rows = self
            .database
            .pool()
            .rows(KEY_ROW, &[blob(id.0)], format!("key `{id}` could not be read"))
            .await?;
        let (Some(stored), Some(key)) = (rows.first(), cached) else {
            return Ok(rows.is_empty() && cached.is_none());
        };
        // After a failover that lost commits, another key may have the revision.
        Ok(stored.differences(&key_columns(key)?, &[]).is_none())
    }

    /// The operations of the newest `n_max` events, in any order.
    pub async fn operations_of_newest_events(&self, n_max: u32) -> Result<Vec<OperationId>, Unavailable> {
        let sql = "SELECT DISTINCT operation_id FROM \
                   (SELECT operation_id FROM events ORDER BY ledger_index DESC LIMIT $1) AS newest";
        self.operation_ids(sql, &[i64::from(n_max).into()]).await
    }

    /// At most `n_max` operations that were published or have failed, by id, starting after `after`, whose last event is from
    /// `from` or later, and from before `before`. Reads through all operations.
    pub async fn operations_ended(
        &self,
        after: Option<OperationId>,
        from: EpochMs,
        before: EpochMs,
        n_max: u32,
    ) -> Result<Vec<OperationId>, Unavailable> {
        let bound = [
            blob_or_first(after.map(|id| id.0)),
            instant(from).into(),
            instant(before).into(),
            i64::from(n_max).into(),
        ];
        self.operation_ids(ENDED, &bound).await
    }

    async fn operation_ids(&self, sql: &str, bound: &[Cell]) -> Result<Vec<OperationId>, Unavailable> {
        let rows = self.database.pool().rows(sql, bound, "operations could not be listed").await?;
        rows.iter().map(decode::operation_id).collect()
    }
}

/// Operations of a person that wait for approvals.
const PENDING_OF: &str =
    "SELECT count(*) AS n FROM operations WHERE tenant = $1 AND submitter = $2 AND awaits_approvals = 1";

#[async_trait]
impl ReadOperations for Store {
    async fn operation_find(
        &self,
        id: OperationId,
        visibility: &Visibility,
    ) -> Result<Option<Record>, ReadError> {
        match visibility {
            Visibility::Everything => self.operation(id, None).await,
            Visibility::Tenant(tenant) => self.operation(id, Some(tenant)).await,
        }
    }

    async fn operation_load(&self, id: OperationId) -> Result<Option<Record>, ReadError> {
        self.operation(id, None).await
    }

    async fn operation_events(&self, id: OperationId) -> Result<Vec<ChainedEvent>, ReadError> {
        events(self.database.pool(), id).await
    }

    async fn operations_owing(
        &self,
        now: EpochMs,
        n_of_tenant_max: u32,
        n_max: u32,
    ) -> Result<Vec<Due>, Unavailable> {
        work::owing(&self.database, now, n_of_tenant_max, n_max).await
    }

    async fn operations_overdue(
        &self,
        submitted_before: EpochMs,
        admitted_before: EpochMs,
        now: EpochMs,
        n_max: u32,
    ) -> Result<Vec<Due>, Unavailable> {
        let [due, latest] = work::is_due(now);
        let mut overdue = Vec::new();
        for (sql, before) in [(PENDING, submitted_before), (ADMITTED, admitted_before), (POSTPONED, now)] {
            let bound = [instant(before).into(), due.into(), latest.into(), i64::from(n_max).into()];
            overdue.extend(work::due(&self.database, sql, &bound).await?);
        }
        Ok(overdue)
    }

    async fn key_operations(
        &self,
        id: KeyId,
        before: Option<u64>,
        n_max: u32,
    ) -> Result<Vec<(u64, OperationId)>, Unavailable> {
        let before = before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
        let bound = [blob(id.0), before.into(), i64::from(n_max).into()];
        let what = format!("the operations of key `{id}` could not be read");
        let rows = self.database.pool().rows(KEY_OPERATIONS, &bound, what).await?;
        let listed = |row: &Row| {
            let index = decode::integer("an operation of a key", row, "ledger_index")?;
            Ok((index.unsigned_abs(), decode::operation_id(row)?))
        };
        rows.iter().map(listed).collect()
    }

    async fn keys_named(&self, key_ref: &KeyRef, n_max: u32) -> Result<Vec<KeyId>, Unavailable> {
        let bound = [key_ref.0.as_str().into(), i64::from(n_max).into()];
        let rows =
            self.database.pool().rows(KEYS_NAMED, &bound, "keys could not be looked up by name").await?;
        rows.iter().map(decode::key_id).collect()
    }

    async fn key_load(&self, id: KeyId) -> Result<Option<CustodyKey>, ReadError> {
        let start = match self.keys.get(id) {
            Ok(key) if self.is_current_key(id, key.as_ref()).await? => return Ok(key),
            Ok(_) => self.keys.start(),
            Err(start) => start,
        };
        let key = self.key_checked(id).await?;
        self.keys.fill(start, id, key.clone());
        Ok(key)
    }

    /// Skips rows that cannot be read, and reads further rows instead: fewer than `n_max` keys mean that there are no more.
    async fn keys_after(&self, after: Option<KeyId>, n_max: u32) -> Result<Vec<CustodyKey>, Unavailable> {
        let to_unavailable = |error| failed("keys could not be read", &error);
        let mut conn = self.database.pool().acquire().await.map_err(to_unavailable)?;
        let mut after = blob_or_first(after.map(|id| id.0));
        let (mut found, n_max) = (Vec::new(), usize::try_from(n_max).unwrap_or(usize::MAX));
        while found.len() < n_max {
            let n_wanted = i64::try_from(n_max - found.len()).unwrap_or(i64::MAX);
            let page = conn.rows(KEYS_AFTER, &[after, n_wanted.into()]).await.map_err(to_unavailable)?;
            let Some(last) = page.last() else { break };
            after = last.cell("key_id").clone();
            found.extend(page.iter().filter_map(decode::body::<CustodyKey>));
        }
        Ok(found)
    }

    async fn key_quorums(&self, n_max: u32) -> Result<Vec<KeyQuorum>, Unavailable> {
        let pool = self.database.pool();
        let rows = pool
            .rows(
                &key_quorums(pool.statements()),
                &[i64::from(n_max).into()],
                "the keys' quorums could not be read",
            )
            .await?;
        rows.iter().map(|row| decode::key_quorum(decode::text("a key", row, "quorum")?)).collect()
    }

    async fn spending_totals(&self, parties: &Parties, now: EpochMs) -> Result<SpendingTotals, Unavailable> {
        let what = "the amounts spent could not be read";
        let mut rows = Vec::new();
        for bound in gateway_spending::bound(parties, now) {
            rows.extend(self.database.pool().rows(TOTALS, &bound, what).await?);
        }
        gateway_spending::totals(parties, &rows, now, None).ok_or_else(|| unavailable(what))
    }

    async fn n_pending(&self, tenant: &Tenant, person: &str) -> Result<u64, Unavailable> {
        let what = "the operations that wait for approvals could not be counted";
        let bound = [tenant.0.as_str().into(), compared(person).as_ref().into()];
        let rows = self.database.pool().rows(PENDING_OF, &bound, what).await?;
        let n = rows.first().and_then(|row| row.integer("n"));
        n.and_then(|n| u64::try_from(n).ok()).ok_or_else(|| unavailable(what))
    }

    async fn payments_to(
        &self,
        key_id: KeyId,
        recipient: &str,
        n_max: usize,
    ) -> Result<Vec<PaidProof>, ReadError> {
        let bound = [blob(key_id.0), recipient.into(), integer(n_max as u64).into()];
        let rows = self.database.pool().rows(PAID_TO, &bound, "earlier payments could not be read").await?;
        let mut proofs = Vec::new();
        for row in &rows {
            let record = self.operation_load(decode::operation_id(row)?).await?;
            proofs.extend(record.and_then(|record| record.operation.paid_proof()));
        }
        Ok(proofs)
    }

    fn damage(&self) -> Vec<Damage> {
        self.damaged.list()
    }

    async fn ping(&self) -> Result<(), Unavailable> {
        let what = "the database does not answer";
        self.database.pool().rows("SELECT 1 AS one", &[], what).await.map(drop)
    }
}

/// The events of an operation with each one's hash, oldest first.
pub(crate) async fn events(pool: &Pool, id: OperationId) -> Result<Vec<ChainedEvent>, ReadError> {
    let rows =
        pool.rows(EVENTS, &[blob(id.0)], format!("the events of operation `{id}` could not be read")).await?;
    let damaged = |error: Unavailable| Damage { subject: Subject::Operation(id), detail: error.detail };
    let events: Result<_, _> = rows.iter().map(|row| decode::event(id, row)).collect();
    Ok(events.map_err(damaged)?)
}
