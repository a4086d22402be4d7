//! The node: its settings, its database, its memory and its receipts. Other files hold the steps.

use crate::call::Call;
use crate::error::NodeError;
use crate::limits::{HEAVY_EVALUATIONS_MAX, READERS};
use crate::memory::ceremonies::Ceremonies;
use crate::memory::generations::Generations;
use crate::memory::health::Health;
use crate::memory::sessions::Sessions;
use crate::memory::watch::{Watch, unusable_size_file};
use crate::settings::{NodeConfig, NodeSettings};
use crate::store::log::LogState;
use crate::store::operation::{Row, View};
use crate::store::sealing::{Rewrap, Sealing, load_identity, open_or_create_identity};
use crate::store::transaction::{APPLICATION, MIGRATIONS, Transact, Transaction};
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::operation::{EffectId, EffectStep};
use gateway_domain::receipt::{Chain, NodeReceipt, PAYLOAD_TYPE, ReceiptStatement, Signature};
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_policy::TrustedBundles;
use gateway_seal::at_rest::Kek;
use gateway_seal::node_key::{NodeIdentity, NodeSecret};
use gateway_sqlite::{Database, Options, Reader, SizeFile, State as _};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// One runtime node.
///
/// Its shares and the seed of its identity are sealed at rest under [`NodeSettings::kek`]. Its memory must not be swapped to
/// disk, dumped or cloned while it runs: it contains shares and nonces, and a clone could use the same nonces again.
pub struct Node {
    pub(crate) config: Arc<NodeConfig>,
    pub(crate) sealing: Sealing,
    /// Signs receipts and messages to other nodes, and opens messages from them.
    pub(crate) secret: NodeSecret,
    pub(crate) database: Database<LogState>,
    /// The log's size, and whether the node has stopped.
    pub(crate) watch: Watch,
    pub(crate) sessions: Sessions,
    pub(crate) ceremonies: Ceremonies,
    pub(crate) generations: Arc<Generations>,
    pub(crate) health: Health,
    /// The policy bundles that it trusts and has loaded.
    pub(crate) bundles: Arc<TrustedBundles>,
    /// Permits for long evaluations.
    pub(crate) heavy: Arc<Semaphore>,
    #[cfg(feature = "testing")]
    pub(crate) lies: crate::memory::lies::Lies<Self>,
}

impl Node {
    /// Opens the node's database. A new database is bound to the key-encryption key and gets an identity. One whose log is shorter
    /// than it was is of a node that has stopped.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when the database cannot be opened, is open in another process, or is sealed under another
    /// key ([`NodeError::is_wrong_kek`]), or when the file with the log's size cannot be used.
    pub async fn open(config: NodeConfig) -> Result<Self, NodeError> {
        let options = Options::at_path(&config.database, APPLICATION, MIGRATIONS);
        let options = options.create().secure_delete().readers(READERS);
        // Opening blocks on files, and its future is not `Send`, so it gets a thread of its own.
        let runtime = tokio::runtime::Handle::current();
        let opening = tokio::task::spawn_blocking(move || runtime.block_on(Database::open(options)));
        let database =
            opening.await.map_err(|_| NodeError::unavailable("the node's store cannot be opened"))??;
        let sealing = Sealing::new(Arc::clone(&config.settings.kek), config.participant);
        let loaded = async {
            let secret = open_or_create_identity(&database, &sealing).await?;
            let log = LogState::load(&mut database.readers().at_hand().await?).await?;
            let open = |path: &PathBuf| {
                let opened = SizeFile::open(path, &secret.identity().signing_key());
                opened.map_err(unusable_size_file)
            };
            let (size_file, known) = config.log_size_file.as_ref().map(open).transpose()?.unzip();
            Ok((secret, Watch::new(&log, size_file), known.unwrap_or_default()))
        };
        let (secret, watch, size_known) = match loaded.await {
            Ok(loaded) => loaded,
            Err(error) => {
                database.close().await;
                return Err(error);
            }
        };
        let NodeSettings { policy_trust, compiled_bundles, .. } = &config.settings;
        let bundles = Arc::new(TrustedBundles::new(policy_trust.clone(), Arc::clone(compiled_bundles)));
        let node = Self {
            config: Arc::new(config),
            sealing,
            secret,
            database,
            watch,
            sessions: Sessions::default(),
            ceremonies: Ceremonies::default(),
            generations: Arc::default(),
            health: Health::default(),
            bundles,
            heavy: Arc::new(Semaphore::new(HEAVY_EVALUATIONS_MAX)),
            #[cfg(feature = "testing")]
            lies: crate::memory::lies::Lies::default(),
        };
        node.compare_size(size_known).await?;
        Ok(node)
    }

    /// The participant that this node is.
    #[must_use]
    pub fn participant(&self) -> ParticipantIndex {
        self.config.participant
    }

    /// The node's public keys, which other nodes and verifiers of receipts pin. They are fixed when its database is created.
    #[must_use]
    pub fn identity(&self) -> &NodeIdentity {
        self.secret.identity()
    }

    /// Seals every secret in the database under another key-encryption key, in one transaction, and closes the database. Open
    /// the node again with the new key. After an error nothing has changed, and the node is still open.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when a secret does not open, or the store failed.
    pub async fn rewrap(&self, new: Arc<Kek>) -> Result<(), NodeError> {
        self.write(Rewrap { old: self.sealing.clone(), new }).await?;
        // Closing removes the write-ahead log, and with it the secrets that are sealed under the old key.
        self.close().await;
        Ok(())
    }

    /// The path of the node's database, if its disk is full. After a write has failed for this reason, each call tries a write
    /// to find out whether the disk is still full.
    pub async fn full_disk(&self) -> Option<PathBuf> {
        self.database.full_disk()?;
        // The next line reports whether it failed again.
        let _failed_again = self.database.probe().await;
        self.database.full_disk().map(Path::to_owned)
    }

    /// How many jobs were written durably, and in how many transactions.
    #[must_use]
    pub fn counters(&self) -> gateway_sqlite::Counters {
        self.database.counters()
    }

    /// What the node has stored of an operation; `None` if it does not know it.
    pub async fn operation(&self, id: OperationId) -> Result<Option<OperationState>, NodeError> {
        let effect = EffectId { operation: id, step: EffectStep::Admission, attempt: 1 };
        let mut conn = self.database.readers().at_hand().await?;
        let row = View::load(&mut conn, effect, None).await?.row;
        Ok(row.map(|Row { admission_hash, last_step, head, .. }| OperationState {
            admission_hash,
            last_step,
            transition_hash: head,
        }))
    }

    /// Finishes pending writes and closes the database. Later calls are [`NodeError::Unavailable`].
    pub async fn close(&self) {
        self.database.close().await;
    }

    pub(crate) fn now(&self) -> EpochMs {
        (self.config.settings.clock)()
    }

    /// Runs work in one transaction of the node's database, durable when this returns.
    pub(crate) async fn write<T: Transact>(&self, work: T) -> Result<T::Output, NodeError> {
        self.database.write(Transaction(work)).await?
    }

    pub(crate) fn chain(&self, call: &Call) -> Chain {
        self.chain_of(call.effect.operation, call.admission_hash)
    }

    pub(crate) fn chain_of(&self, operation_id: OperationId, admission_hash: Hex32) -> Chain {
        Chain { admission_hash, operation_id, participant: self.config.participant }
    }

    /// The node's receipt for a step that is durable, with the entry at `log_index`.
    ///
    /// Receipts are not stored: Ed25519 signatures are deterministic (RFC 8032), and the log has the statement, so the same step
    /// always gets the same receipt.
    pub(crate) fn issue_receipt(
        &self,
        statement: &ReceiptStatement,
        log_index: u64,
    ) -> Result<NodeReceipt, NodeError> {
        self.watch.grow(log_index.saturating_add(1))?;
        self.watch.note(log_index, statement);
        #[cfg(feature = "testing")]
        if let Some(receipt) = self.lies.receipt(statement) {
            return Ok(receipt);
        }
        self.sign_receipt(statement, log_index)
    }

    pub(crate) fn sign_receipt(
        &self,
        statement: &ReceiptStatement,
        log_index: u64,
    ) -> Result<NodeReceipt, NodeError> {
        let signature = self.secret.sign_statement(PAYLOAD_TYPE, &statement.payload(log_index)?);
        Ok(NodeReceipt {
            participant: statement.participant,
            transition_hash: statement.transition_hash,
            log_index,
            signature: Signature::new(signature),
        })
    }
}

/// What a node has stored of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationState {
    /// Hash of the decision that admitted it; zero if it was discarded before that.
    pub admission_hash: Hex32,
    /// The last step that the node made.
    pub last_step: EffectStep,
    /// Head of the node's chain of its steps.
    pub transition_hash: Hex32,
}

/// Reads the identity of the node with this database. Opens the file read-only, so a running node may have it open.
///
/// # Errors
/// [`NodeError::Unavailable`] when there is no such database, or it is sealed under another key
/// ([`NodeError::is_wrong_kek`]).
pub async fn read_identity(
    database: &Path,
    participant: ParticipantIndex,
    kek: Arc<Kek>,
) -> Result<NodeIdentity, NodeError> {
    let reader = Reader::open(Options::at_path(database, APPLICATION, MIGRATIONS)).await?;
    let identity = match reader.readers().at_hand().await {
        Ok(mut conn) => load_identity(&mut conn, &Sealing::new(kek, participant)).await,
        Err(error) => Err(error.into()),
    };
    reader.close().await;
    identity
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("participant", &self.config.participant).finish_non_exhaustive()
    }
}
