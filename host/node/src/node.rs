//! The node: its settings, its store, its memory. The steps are in the files of their names.

use crate::ceremony::Ceremonies;
use crate::error::NodeError;
use crate::generations::Generations;
use crate::limits::READERS;
use crate::sessions::Sessions;
use gateway_domain::dsse::KeySet;
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_sqlite::{ApplicationId, Database, Migration, Options};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

const APPLICATION: ApplicationId = ApplicationId::new(*b"SVCn");

const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "node", sql: include_str!("../migrations/0001_node.sql") }];

/// Tells a node the time.
pub type Clock = Arc<dyn Fn() -> EpochMs + Send + Sync>;

/// What a node is told at its start, and believes for as long as it runs.
#[derive(Clone)]
pub struct NodeConfig {
    /// Which participant it is.
    pub participant: ParticipantIndex,
    /// Its own database, made where it is missing.
    pub database: PathBuf,
    /// The authorities it believes.
    pub authorities: KeySet,
    /// How many different people must have approved, whatever a policy says.
    pub required_approvals: u32,
    /// Development only: keys are made without approvals. A node cannot tell a key made on first use from another; a
    /// new key releases nothing, and every signature with it still needs its approvals.
    pub keys_without_approvals: bool,
    /// Its own clock.
    pub clock: Clock,
}

/// One runtime node.
///
/// Its secrets at rest are as safe as its database file (mode 0600, deleted rows overwritten): sealing each share under
/// a key of the node's own is still to come. Its memory must not be swapped, dumped or cloned while it serves: a clone
/// is a second set of the same nonces (threshold.md 7.5).
pub struct Node {
    pub(crate) config: Arc<NodeConfig>,
    pub(crate) database: Database<()>,
    pub(crate) sessions: Sessions,
    pub(crate) ceremonies: Ceremonies,
    pub(crate) generations: Arc<Generations>,
}

impl Node {
    /// Opens the node's database. No session survives a restart.
    ///
    /// # Errors
    /// [`NodeError::Unavailable`] when the database cannot be opened; one process at a time has it.
    pub async fn open(config: NodeConfig) -> Result<Self, NodeError> {
        let options = Options::at_path(&config.database, APPLICATION, MIGRATIONS);
        let options = options.create().secure_delete().readers(READERS);
        // Opening touches files before it speaks SQL, and its future is not `Send`: both want a thread of their own.
        let runtime = tokio::runtime::Handle::current();
        let opening = tokio::task::spawn_blocking(move || runtime.block_on(Database::open(options)));
        let database =
            opening.await.map_err(|_| NodeError::unavailable("the node's store can not be opened"))??;
        Ok(Self {
            config: Arc::new(config),
            database,
            sessions: Sessions::default(),
            ceremonies: Ceremonies::default(),
            generations: Arc::default(),
        })
    }

    /// Which participant this is.
    #[must_use]
    pub fn participant(&self) -> ParticipantIndex {
        self.config.participant
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
