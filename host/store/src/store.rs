//! The store as the rest of the gateway sees it: four ports over one backend.

use crate::error::OpenError;
use crate::sqlite::Sqlite;
use async_trait::async_trait;
use gateway_domain::evidence::ChainedEvent;
use gateway_domain::ids::{Hex32, KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::Payment;
use gateway_domain::key::CustodyKey;
use gateway_domain::policy::Spent;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{
    Activated, Activation, Commit, CommitOperations, Committed, Damage, DecisionRecord, KeepPolicies,
    KeyQuorum, LogConsistency, LogHead, LogInclusion, PreviewRecord, RateLimited, ReadError, ReadLog,
    ReadOperations, Record, StoredBundle,
};
use gateway_engine::{Token, Unavailable, Visibility};

/// Durable commits and reads. Dropping it lets queued commits finish; [`close`](Self::close) waits for them.
#[derive(Debug)]
pub struct Store {
    backend: Backend,
}

#[derive(Debug)]
enum Backend {
    Sqlite(Sqlite),
}

/// What the store has written since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commits asked for and carried out in a transaction, raced ones included.
    pub jobs: u64,
    /// Transactions committed: many jobs may share one.
    pub transactions: u64,
    /// Transactions rolled back.
    pub rollbacks: u64,
    /// SQL statements run for jobs, beside the transactions' own.
    pub statements: u64,
}

impl Store {
    /// Opens the database at `location` (`sqlite://path`, `sqlite:path` or a path) and brings its schema up to date. A
    /// file that is missing is created, with its folder.
    ///
    /// # Errors
    /// [`OpenError`]: the location is not a database of this program, is in use, or can not be written durably.
    pub async fn open(location: &str) -> Result<Self, OpenError> {
        Ok(Self { backend: Backend::Sqlite(Sqlite::open(location).await?) })
    }

    /// Whether there is a database at `location` already: opening it would make none.
    ///
    /// # Errors
    /// [`OpenError`]: the location is not one of a database.
    pub fn exists(location: &str) -> Result<bool, OpenError> {
        Ok(Sqlite::exists(location)?)
    }

    /// What was written so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.counters(),
        }
    }

    /// Finishes what is queued and lets another process have the database. Everything after it is unavailable.
    pub async fn close(&self) {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.close().await,
        }
    }
}

#[async_trait]
impl CommitOperations for Store {
    async fn commit(&self, commit: Commit) -> Result<Committed, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.commit(commit).await,
        }
    }

    async fn decision_record(&self, record: DecisionRecord) -> Result<(), Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.decision_record(&record).await,
        }
    }

    async fn commit_with_token(
        &self,
        commit: Commit,
        charge: Token,
    ) -> Result<RateLimited<Box<Record>>, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.commit_with_token(commit, &charge).await,
        }
    }

    async fn decision_record_with_token(
        &self,
        record: DecisionRecord,
        charge: Token,
    ) -> Result<RateLimited<()>, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.decision_record_with_token(&record, &charge).await,
        }
    }

    async fn preview_record(&self, record: PreviewRecord, n_kept: u32) -> Result<(), Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.preview_record(&record, n_kept).await,
        }
    }

    async fn probe_write(&self, at: EpochMs) -> Result<(), Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.probe_write(at).await,
        }
    }
}

#[async_trait]
impl KeepPolicies for Store {
    async fn activation_append(
        &self,
        activation: Activation,
        bundle: StoredBundle,
    ) -> Result<Activated, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.activation_append(activation, bundle).await,
        }
    }

    async fn activations(&self, n_max: u32) -> Result<Vec<Activation>, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.activations(n_max).await,
        }
    }

    async fn bundle_load(&self, bundle_hash: Hex32) -> Result<Option<StoredBundle>, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.bundle_load(bundle_hash).await,
        }
    }

    async fn bundle_file(&self, bundle_hash: Hex32, name: &str) -> Result<Option<Vec<u8>>, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.bundle_file(bundle_hash, name).await,
        }
    }
}

#[async_trait]
impl ReadOperations for Store {
    async fn operation_find(
        &self,
        id: OperationId,
        visibility: &Visibility,
    ) -> Result<Option<Record>, ReadError> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.operation_find(id, visibility).await,
        }
    }

    async fn operation_load(&self, id: OperationId) -> Result<Option<Record>, ReadError> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.operation_load(id).await,
        }
    }

    async fn operation_events(&self, id: OperationId) -> Result<Vec<ChainedEvent>, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.operation_events(id).await,
        }
    }

    async fn operations_owing(&self, n_max: u32) -> Result<Vec<OperationId>, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.operations_owing(n_max).await,
        }
    }

    async fn operations_pending_since(
        &self,
        before: EpochMs,
        n_max: u32,
    ) -> Result<Vec<OperationId>, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.operations_pending_since(before, n_max).await,
        }
    }

    async fn key_operations(
        &self,
        id: KeyId,
        before: Option<u64>,
        n_max: u32,
    ) -> Result<Vec<(u64, OperationId)>, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.key_operations(id, before, n_max).await,
        }
    }

    async fn keys_named(&self, key_ref: &KeyRef, n_max: u32) -> Result<Vec<KeyId>, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.keys_named(key_ref, n_max).await,
        }
    }

    async fn key_load(&self, id: KeyId) -> Result<Option<CustodyKey>, ReadError> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.key_load(id).await,
        }
    }

    async fn keys_after(&self, after: Option<KeyId>, n_max: u32) -> Result<Vec<CustodyKey>, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.keys_after(after, n_max).await,
        }
    }

    async fn key_quorums(&self, n_max: u32) -> Result<Vec<KeyQuorum>, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.key_quorums(n_max).await,
        }
    }

    async fn spent(&self, tenant: &Tenant, payment: &Payment, now: EpochMs) -> Result<Spent, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.spent(tenant, payment, now).await,
        }
    }

    fn damage(&self) -> Vec<Damage> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.damage(),
        }
    }

    async fn ping(&self) -> Result<(), Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.ping().await,
        }
    }
}

#[async_trait]
impl ReadLog for Store {
    async fn log_head(&self) -> Result<LogHead, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.log_head().await,
        }
    }

    async fn log_index(&self, id: OperationId, seq: u64) -> Result<Option<u64>, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.log_index(id, seq).await,
        }
    }

    async fn log_inclusion(&self, index: u64, size: u64) -> Result<Option<LogInclusion>, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.log_inclusion(index, size).await,
        }
    }

    async fn log_consistency(&self, first: u64, second: u64) -> Result<Option<LogConsistency>, Unavailable> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.log_consistency(first, second).await,
        }
    }
}
