//! Reads on the read-only connections. `checked` reads operations and keys.

use crate::decode::{self, StoredEvent};
use crate::encode::instant;
use crate::error::failed;
use crate::fsck::keys;
use crate::row::Cell;
use crate::sqlite::Store;
use crate::sqlite::snapshot::rows;
use crate::sqlite::spending;
use async_trait::async_trait;
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::{KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::Payment;
use gateway_domain::key::CustodyKey;
use gateway_domain::policy::SpendingTotals;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{Damage, KeyQuorum, ReadError, ReadOperations, Record};
use gateway_engine::{Unavailable, Visibility};
use sqlx::SqlitePool;

const EVENTS: &str = "SELECT format, event_hash, salt, body FROM events WHERE operation_id = ?1 ORDER BY seq";
const KEY_OPERATIONS: &str = "SELECT ledger_index, operation_id FROM key_operations
    WHERE key_id = ?1 AND ledger_index < ?2 ORDER BY ledger_index DESC LIMIT ?3";
const KEYS_NAMED: &str = "SELECT key_id FROM custody_keys WHERE key_ref = ?1 ORDER BY key_id LIMIT ?2";
/// The empty blob sorts before every id.
const KEYS_AFTER: &str = "SELECT key_id, body FROM custody_keys
    WHERE key_id > ?1 ORDER BY key_id LIMIT ?2";
/// The expression of the index `custody_keys_quorum`. It must be the same text: otherwise SQLite would not use the index.
macro_rules! key_quorum {
    () => {
        "CASE WHEN state IN ('active', 'refreshing', 'resharing', 'recovering', 'rotating')
         THEN (body ->> '$.threshold') || ' ' || (body ->> '$.participants') END"
    };
}

/// Steps through the index from one distinct quorum to the next, without reading the keys in between.
pub(super) const KEY_QUORUMS: &str = concat!(
    "WITH RECURSIVE quorums (quorum) AS (SELECT '' UNION ALL SELECT (SELECT ",
    key_quorum!(),
    " FROM custody_keys WHERE ",
    key_quorum!(),
    " > quorum ORDER BY ",
    key_quorum!(),
    " LIMIT 1) FROM quorums WHERE quorum IS NOT NULL LIMIT ?1 + 1) SELECT quorum FROM quorums WHERE quorum > ''"
);
pub(super) const OWING: &str =
    "SELECT operation_id FROM operations WHERE owes = 1 ORDER BY updated_at_ms LIMIT ?1";
pub(super) const PENDING: &str =
    "SELECT operation_id FROM operations WHERE awaits_approvals = 1 AND created_at_ms < ?2
    ORDER BY created_at_ms LIMIT ?1";

impl Store {
    /// The operation from the cache, or else from the database. `tenant` restricts only the database read.
    async fn operation(&self, id: OperationId, tenant: Option<&Tenant>) -> Result<Option<Record>, ReadError> {
        let start = match self.operations.get(id) {
            Ok(record) => return Ok(Some(record)),
            Err(start) => start,
        };
        let record = self.operation_checked(id, tenant).await?;
        if let Some(record) = &record {
            self.operations.fill(start, id, record.clone());
        }
        Ok(record)
    }
}

impl Store {
    /// The operations of the newest `n_max` events, in any order.
    ///
    /// # Errors
    /// [`Unavailable`] when the store failed.
    pub async fn operations_of_newest_events(&self, n_max: u32) -> Result<Vec<OperationId>, Unavailable> {
        let sql = "SELECT DISTINCT operation_id FROM \
                   (SELECT operation_id FROM events ORDER BY ledger_index DESC LIMIT ?1)";
        let ids = sqlx::query_scalar::<_, Vec<u8>>(sql).bind(n_max);
        operation_ids(ids.fetch_all(self.database.reader()).await)
    }
}

#[async_trait]
impl ReadOperations for Store {
    async fn operation_find(
        &self,
        id: OperationId,
        visibility: &Visibility,
    ) -> Result<Option<Record>, ReadError> {
        let found = match visibility {
            Visibility::Everything => self.operation(id, None).await?,
            Visibility::Tenant(tenant) => self.operation(id, Some(tenant)).await?,
        };
        // A cached operation may belong to another tenant.
        Ok(found.filter(|record| visibility.includes(&record.operation.tenant)))
    }

    async fn operation_load(&self, id: OperationId) -> Result<Option<Record>, ReadError> {
        self.operation(id, None).await
    }

    async fn operation_events(&self, id: OperationId) -> Result<Vec<ChainedEvent>, Unavailable> {
        events(self.database.reader(), id).await
    }

    async fn operations_owing(&self, n_max: u32) -> Result<Vec<OperationId>, Unavailable> {
        let ids = sqlx::query_scalar::<_, Vec<u8>>(OWING).bind(n_max);
        operation_ids(ids.fetch_all(self.database.reader()).await)
    }

    async fn operations_pending_since(
        &self,
        before: EpochMs,
        n_max: u32,
    ) -> Result<Vec<OperationId>, Unavailable> {
        let ids = sqlx::query_scalar::<_, Vec<u8>>(PENDING).bind(n_max).bind(instant(before));
        operation_ids(ids.fetch_all(self.database.reader()).await)
    }

    async fn key_operations(
        &self,
        id: KeyId,
        before: Option<u64>,
        n_max: u32,
    ) -> Result<Vec<(u64, OperationId)>, Unavailable> {
        let before = before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
        let query = sqlx::query_as::<_, (i64, Vec<u8>)>(KEY_OPERATIONS).bind(&id.0.as_bytes()[..]);
        let rows = query.bind(before).bind(n_max).fetch_all(self.database.reader()).await;
        let to_unavailable =
            |error| failed(format_args!("the operations of key `{id}` could not be read"), &error);
        let decode =
            |(position, bytes): (i64, Vec<u8>)| Ok((position.unsigned_abs(), decode::operation_id(&bytes)?));
        rows.map_err(to_unavailable)?.into_iter().map(decode).collect()
    }

    async fn keys_named(&self, key_ref: &KeyRef, n_max: u32) -> Result<Vec<KeyId>, Unavailable> {
        let query = sqlx::query_scalar::<_, Vec<u8>>(KEYS_NAMED).bind(key_ref.0.as_str()).bind(n_max);
        let rows = query.fetch_all(self.database.reader()).await;
        let rows = rows.map_err(|error| failed("keys could not be looked up by name", &error))?;
        rows.iter().map(|bytes| decode::key_id(bytes)).collect()
    }

    async fn key_load(&self, id: KeyId) -> Result<Option<CustodyKey>, ReadError> {
        let start = match self.keys.get(id) {
            Ok(key) => return Ok(key),
            Err(start) => start,
        };
        let key = self.key_checked(id).await?;
        self.keys.fill(start, id, key.clone());
        Ok(key)
    }

    /// Skips rows that cannot be read, and reads further rows instead: fewer than `n_max` keys mean that there are no more.
    async fn keys_after(&self, after: Option<KeyId>, n_max: u32) -> Result<Vec<CustodyKey>, Unavailable> {
        let to_unavailable = |error| failed("keys could not be read", &error);
        let mut conn = self.database.reader().acquire().await.map_err(to_unavailable)?;
        let mut after = Cell::Blob(after.map(|id| id.0.as_bytes().to_vec()).unwrap_or_default());
        let (mut found, n_max) = (Vec::new(), usize::try_from(n_max).unwrap_or(usize::MAX));
        while found.len() < n_max {
            let n_wanted = i64::try_from(n_max - found.len()).unwrap_or(i64::MAX);
            let page =
                rows(&mut conn, KEYS_AFTER, &[after, n_wanted.into()]).await.map_err(to_unavailable)?;
            let Some(last) = page.last() else { break };
            after = last.cell("key_id").clone();
            found.extend(page.iter().filter_map(keys::key));
        }
        Ok(found)
    }

    async fn key_quorums(&self, n_max: u32) -> Result<Vec<KeyQuorum>, Unavailable> {
        let query = sqlx::query_scalar::<_, String>(KEY_QUORUMS).bind(n_max);
        let rows = query.fetch_all(self.database.reader()).await;
        let rows = rows.map_err(|error| failed("the keys' quorums could not be read", &error))?;
        rows.iter().map(|text| decode::key_quorum(text)).collect()
    }

    async fn spending_totals(
        &self,
        tenant: &Tenant,
        payment: &Payment,
        now: EpochMs,
    ) -> Result<SpendingTotals, Unavailable> {
        spending::spending_totals(self.database.reader(), tenant, payment, now).await
    }

    fn damage(&self) -> Vec<Damage> {
        self.damaged.list()
    }

    async fn ping(&self) -> Result<(), Unavailable> {
        let answer = sqlx::query("SELECT 1").execute(self.database.reader()).await;
        answer.map(|_| ()).map_err(|error| failed("the database does not answer", &error))
    }
}

/// The events of an operation with each one's hash, oldest first.
pub(super) async fn events(pool: &SqlitePool, id: OperationId) -> Result<Vec<ChainedEvent>, Unavailable> {
    let rows = sqlx::query_as::<_, StoredEvent>(EVENTS).bind(&id.0.as_bytes()[..]).fetch_all(pool).await;
    let to_unavailable =
        |error| failed(format_args!("the events of operation `{id}` could not be read"), &error);
    rows.map_err(to_unavailable)?.into_iter().map(|row| decode::event(id, row)).collect()
}

fn operation_ids(rows: Result<Vec<Vec<u8>>, sqlx::Error>) -> Result<Vec<OperationId>, Unavailable> {
    let rows = rows.map_err(|error| failed("the operations to drive could not be read", &error))?;
    rows.iter().map(|bytes| decode::operation_id(bytes)).collect()
}
