//! The processes of the nodes: started, crashed, restored from older copies of their databases, and readmitted.

use crate::parts::{ProcessClock, Shared};
use gateway_domain::node_log::LogEntry;
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_node::{Node, NodeConfig, NodeSettings, Peers};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Entries read at a time, the most that a node returns.
const ENTRIES_MAX: u32 = 1024;

/// One node's process, and its disk.
pub(crate) struct Machine {
    pub(crate) index: u16,
    pub(crate) clock: ProcessClock,
    folder: PathBuf,
    settings: NodeSettings,
    peers: Arc<Peers>,
    node: Option<Arc<Node>>,
    /// The turn at which a crashed process starts again.
    pub(crate) starts_at: u64,
    /// All entries that this node ever had, by position. A rollback does not shorten it.
    pub(crate) entries: Vec<LogEntry>,
    /// How many of them the database has now.
    pub(crate) n_stored: usize,
    /// Whether an older copy was restored that the node has not noticed yet.
    pub(crate) is_restored: bool,
    /// Whether there is an older copy to restore.
    pub(crate) has_image: bool,
    /// The time of its last readmission, by the clock of the simulation.
    pub(crate) readmitted_at: Option<EpochMs>,
}

/// The files of a database: the second has what the first lacks, and the third is rebuilt from the second.
const SUFFIXES: [&str; 2] = ["", "-wal"];

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

impl Machine {
    /// Starts the node with a new database in this folder.
    pub(crate) fn start(
        shared: &Shared,
        folder: &Path,
        index: u16,
        is_signed: bool,
        peers: &Arc<Peers>,
        clock: ProcessClock,
    ) -> Self {
        let settings = shared.node_settings(is_signed, clock.clone());
        let mut machine = Self {
            index,
            clock,
            folder: folder.to_owned(),
            settings,
            peers: Arc::clone(peers),
            node: None,
            starts_at: 0,
            entries: Vec::new(),
            n_stored: 0,
            is_restored: false,
            has_image: false,
            readmitted_at: None,
        };
        machine.open(shared);
        peers.pin(machine.node.as_ref().unwrap().identity()).unwrap();
        machine
    }

    pub(crate) fn node(&self) -> Option<&Arc<Node>> {
        self.node.as_ref()
    }

    fn database(&self) -> PathBuf {
        self.folder.join(format!("node-{}.db", self.index))
    }

    fn log_size_file(&self) -> PathBuf {
        self.folder.join(format!("node-{}.log-size", self.index))
    }

    pub(crate) fn open(&mut self, shared: &Shared) {
        let config = NodeConfig {
            participant: ParticipantIndex(self.index),
            database: self.database(),
            log_size_file: Some(self.log_size_file()),
            peers: Arc::clone(&self.peers),
            settings: self.settings.clone(),
        };
        self.node = Some(Arc::new(shared.io.block_on(Node::open(config)).unwrap()));
    }

    /// Ends the process: what it had in memory is lost, and the files stay as they are at this moment. A copy is put back after
    /// the connections are closed, since closing them moves the write-ahead log into the database.
    pub(crate) fn crash(&mut self, shared: &Shared, starts_at: u64) {
        let Some(node) = self.node.take() else { return };
        self.copy(&self.database(), &self.crash_image());
        shared.io.block_on(node.close());
        drop(node);
        self.copy(&self.crash_image(), &self.database());
        self.starts_at = starts_at;
    }

    fn crash_image(&self) -> PathBuf {
        self.folder.join(format!("crashed-{}.db", self.index))
    }

    fn old_image(&self) -> PathBuf {
        self.folder.join(format!("old-{}.db", self.index))
    }

    /// Keeps a copy of the database for [`Machine::restore`].
    pub(crate) fn keep_image(&mut self) {
        self.copy(&self.database(), &self.old_image());
        self.has_image = true;
    }

    /// Puts the copy in the place of the database, as an operator does with a backup, and starts the node.
    pub(crate) fn restore(&mut self, shared: &Shared, is_whole: bool) {
        self.crash(shared, 0);
        self.copy(&self.old_image(), &self.database());
        // The file with the log's size, which is not in the copy, is as old as the copy.
        if is_whole {
            fs::remove_file(self.log_size_file()).unwrap();
        }
        self.has_image = false;
        self.open(shared);
        let size = usize::try_from(self.node.as_ref().unwrap().log_size()).unwrap();
        self.is_restored = size < self.entries.len();
        self.n_stored = size;
    }

    fn copy(&self, from: &Path, to: &Path) {
        for suffix in SUFFIXES {
            let (from, to) = (with_suffix(from, suffix), with_suffix(to, suffix));
            if from.exists() {
                fs::copy(&from, &to).unwrap();
            } else if to.exists() {
                fs::remove_file(&to).unwrap();
            }
        }
        let shared_memory = with_suffix(to, "-shm");
        if shared_memory.exists() {
            fs::remove_file(shared_memory).unwrap();
        }
    }

    /// The entries that the log has beyond those that were read before.
    pub(crate) fn new_entries(&mut self, shared: &Shared) -> Vec<LogEntry> {
        let Some(node) = &self.node else { return Vec::new() };
        let size = usize::try_from(node.log_size()).unwrap();
        let mut found = Vec::new();
        while self.n_stored < size {
            let from = u64::try_from(self.n_stored).unwrap();
            let page = shared.io.block_on(node.log_entries(from, ENTRIES_MAX)).unwrap();
            if page.is_empty() {
                break;
            }
            self.n_stored += page.len();
            found.extend(page);
        }
        found
    }

    /// The operator accepts the restored state. The operator kept a signed head, so the node is told the size that its log had.
    pub(crate) fn readmit(&mut self, shared: &Shared, now: EpochMs) {
        let Some(node) = self.node.clone() else { return };
        let size = u64::try_from(self.entries.len()).unwrap();
        shared.io.block_on(node.readmit(size)).unwrap();
        self.is_restored = false;
        self.readmitted_at = Some(now);
    }
}
