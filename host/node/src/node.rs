//! The node: its settings, its store, its memory. The steps are in the files of their names.

use crate::ceremony::Ceremonies;
use crate::error::NodeError;
use crate::generations::Generations;
use crate::limits::READERS;
use crate::peers::Peers;
use crate::sealing::{Rewrap, Sealing, settle};
use crate::sessions::Sessions;
use gateway_domain::approval::SigningRule;
use gateway_domain::dsse::KeySet;
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_seal::at_rest::Kek;
use gateway_seal::node_key::{NodeIdentity, NodeSecret};
use gateway_sqlite::{ApplicationId, Database, Migration, Options};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const APPLICATION: ApplicationId = ApplicationId::new(*b"SVCn");

pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "node", sql: include_str!("../migrations/0001_node.sql") },
    Migration { version: 2, name: "row_hashes", sql: include_str!("../migrations/0002_row_hashes.sql") },
    Migration { version: 3, name: "key_use", sql: include_str!("../migrations/0003_key_use.sql") },
];

/// Tells a node the time.
pub type Clock = Arc<dyn Fn() -> EpochMs + Send + Sync>;

/// What a node is told at its start, and believes for as long as it runs.
#[derive(Clone)]
pub struct NodeConfig {
    /// Which participant it is.
    pub participant: ParticipantIndex,
    /// Its own database, made where it is missing.
    pub database: PathBuf,
    /// Who the other nodes are, and it itself.
    pub peers: Arc<Peers>,
    /// What its secrets are sealed under in that database.
    pub kek: Arc<Kek>,
    /// The authorities it believes.
    pub authorities: KeySet,
    /// How many different people must have approved, whatever a policy says.
    pub required_approvals: u32,
    /// The longest that a decision may hold from now, milliseconds. Approvals are judged when it is admitted: one that held for
    /// years would outlive the approvers it stands on.
    pub decision_ttl_max_ms: u64,
    /// Whether approvals must be signed by their approvers, and whose signatures it believes: its own copy of the
    /// registry, never the gateway's word.
    pub signed_approvals: SigningRule,
    /// Development only, and not where approvals must be signed: keys are made without approvals. A node cannot tell a key made on first use from another; a
    /// new key releases nothing, and every signature with it still needs its approvals.
    pub keys_without_approvals: bool,
    /// Its own clock.
    pub clock: Clock,
}

/// One runtime node.
///
/// Its secrets at rest are sealed under [`NodeConfig::kek`]: its shares, and the seed of its identity. Its memory must not
/// be swapped, dumped or cloned while it serves: a clone is a second set of the same nonces (threshold.md 7.5).
pub struct Node {
    pub(crate) config: Arc<NodeConfig>,
    pub(crate) sealing: Sealing,
    /// What it signs receipts with, and messages between nodes; those to it are opened with it.
    pub(crate) secret: NodeSecret,
    pub(crate) database: Database<()>,
    pub(crate) sessions: Sessions,
    pub(crate) ceremonies: Ceremonies,
    pub(crate) generations: Arc<Generations>,
    #[cfg(feature = "testing")]
    pub(crate) lies: crate::testing::Lies,
}

impl Node {
    /// Opens the node's database, which the first time is bound to the key and given an identity. No session survives a
    /// restart.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when the database cannot be opened, as when another process has it, or is sealed under
    /// another key ([`NodeError::is_sealed_otherwise`]).
    pub async fn open(config: NodeConfig) -> Result<Self, NodeError> {
        let options = Options::at_path(&config.database, APPLICATION, MIGRATIONS);
        let options = options.create().secure_delete().readers(READERS);
        // Opening touches files before it speaks SQL, and its future is not `Send`: both want a thread of their own.
        let runtime = tokio::runtime::Handle::current();
        let opening = tokio::task::spawn_blocking(move || runtime.block_on(Database::open(options)));
        let database =
            opening.await.map_err(|_| NodeError::unavailable("the node's store can not be opened"))??;
        let sealing = Sealing::new(Arc::clone(&config.kek), config.participant);
        let secret = match settle(&database, &sealing).await {
            Ok(secret) => secret,
            Err(error) => {
                database.close().await;
                return Err(error);
            }
        };
        Ok(Self {
            config: Arc::new(config),
            sealing,
            secret,
            database,
            sessions: Sessions::default(),
            ceremonies: Ceremonies::default(),
            generations: Arc::default(),
            #[cfg(feature = "testing")]
            lies: crate::testing::Lies::default(),
        })
    }

    /// Which participant this is.
    #[must_use]
    pub fn participant(&self) -> ParticipantIndex {
        self.config.participant
    }

    /// Who it is to other nodes, and to whoever checks its receipts: the same for as long as it has its database.
    #[must_use]
    pub fn identity(&self) -> &NodeIdentity {
        self.secret.identity()
    }

    pub(crate) fn secret(&self) -> &NodeSecret {
        &self.secret
    }

    /// Puts every secret in the database under another key, in one transaction, and lets the database go: the node is
    /// to be opened again, under that key. After an error it still serves, under the key it had.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when a secret does not open, or the store failed.
    pub async fn rewrap(&self, new: Arc<Kek>) -> Result<(), NodeError> {
        self.database.write(Rewrap { old: self.sealing.clone(), new }).await??;
        // The log goes with the database, and with it what was wrapped under the old key.
        self.close().await;
        Ok(())
    }

    /// The node's database, when its disk is full. After a write that failed so, each call tries another first.
    pub async fn full_disk(&self) -> Option<PathBuf> {
        self.database.full_disk()?;
        // It says itself whether it changed anything.
        let _failed_again = self.database.probe().await;
        self.database.full_disk().map(Path::to_owned)
    }

    /// How often it wrote durably.
    #[must_use]
    pub fn counters(&self) -> gateway_sqlite::Counters {
        self.database.counters()
    }

    /// Finishes what is being written and lets the database go. Later calls are [`NodeError::Unavailable`].
    pub async fn close(&self) {
        self.database.close().await;
    }

    pub(crate) fn now(&self) -> EpochMs {
        (self.config.clock)()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("participant", &self.config.participant).finish_non_exhaustive()
    }
}
