//! The nodes' own logs, as files, and what follows from them without any evidence.
//!
//! A file has one JSON object on each line: first `{"format": "svc/node-log/v1", "participant": 0}`, then every
//! [entry](LogEntry) of the node's log from position 0, then at least one [signed head](SignedLogHead). Heads that a reader kept from
//! earlier may be added: each is compared. A log is complete or worth nothing, since a missing entry could be the hidden one; so
//! the file has no proofs, and the tree is computed from the entries.

use crate::report::Finding;
use crate::roots::Roots;
pub use gateway_domain::node_log::{FORMAT, Header};

use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::json::{self, Floats};
use gateway_domain::log::Frontier;
use gateway_domain::node_log::{LogEntry, ReleasedShare, SignedLogHead};
use gateway_domain::operation::EffectStep;
use gateway_domain::receipt::ReceiptStatement;
use gateway_domain::roster::ParticipantIndex;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Read as _};

/// Longest line, in bytes: ten times the longest entry.
const LINE_BYTES_MAX: u64 = 16 * 1024;

/// The most entries of one log that are read: they are held in memory, at half a kilobyte each.
pub const ENTRIES_READ_MAX: usize = 1_000_000;

/// The most heads of one log that are read: for each, the tree is compared at its size.
const HEADS_MAX: usize = 1024;

/// Why a file is not a node's log.
#[derive(Debug, thiserror::Error)]
pub enum NodeLogError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// A line is not JSON, or not of the form.
    #[error("line {line} is not a line of a node's log: {why}")]
    Line {
        /// From 1.
        line: usize,
        /// The reason.
        why: String,
    },
    /// There are more entries or heads than are read.
    #[error("line {line}: a log with more than {ENTRIES_READ_MAX} entries or {HEADS_MAX} heads is not read")]
    TooLong {
        /// From 1.
        line: usize,
    },
    /// Two files have the log of one node.
    #[error("the log of node {0} was given twice")]
    Twice(ParticipantIndex),
}

/// The log of one node as a file states it. Nothing is verified.
#[derive(Debug)]
pub struct NodeLogFile {
    participant: ParticipantIndex,
    entries: Vec<LogEntry>,
    heads: Vec<SignedLogHead>,
}

impl NodeLogFile {
    /// Reads a file.
    pub fn read(mut file: impl BufRead) -> Result<Self, NodeLogError> {
        let header = next_line(&mut file, 1)?.unwrap_or_default();
        let header: Header = parse(header, 1)?;
        if header.format != FORMAT {
            return Err(NodeLogError::Line { line: 1, why: format!("the format is not `{FORMAT}`") });
        }
        let mut log = Self { participant: header.participant, entries: Vec::new(), heads: Vec::new() };
        let mut line = 2;
        while let Some(value) = next_line(&mut file, line)? {
            if value.get("head").is_some() {
                log.heads.push(parse(value, line)?);
            } else {
                log.entries.push(parse(value, line)?);
            }
            if log.entries.len() > ENTRIES_READ_MAX || log.heads.len() > HEADS_MAX {
                return Err(NodeLogError::TooLong { line });
            }
            line = line.saturating_add(1);
        }
        Ok(log)
    }
}

/// The next line as JSON; `None` at the end.
fn next_line(file: &mut impl BufRead, line: usize) -> Result<Option<Value>, NodeLogError> {
    let mut text = Vec::new();
    file.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut text)?;
    if text.is_empty() {
        return Ok(None);
    }
    if text.pop() != Some(b'\n') {
        return Err(NodeLogError::Line { line, why: "it does not end, or is too long".to_owned() });
    }
    let parsed = json::parse(&text, Floats::Allowed);
    parsed.map(Some).map_err(|error| NodeLogError::Line { line, why: error.to_string() })
}

fn parse<T: for<'de> Deserialize<'de>>(value: Value, line: usize) -> Result<T, NodeLogError> {
    serde_json::from_value(value).map_err(|error| NodeLogError::Line { line, why: error.to_string() })
}

/// Whether a node that makes this step releases a signature share, or changes its shares.
pub(crate) const fn releases(step: EffectStep) -> bool {
    matches!(step, EffectStep::Execute | EffectStep::CommitEpoch)
}

/// A receipt in a node's log.
#[derive(Debug)]
pub(crate) struct Logged {
    pub(crate) log_index: u64,
    pub(crate) statement: ReceiptStatement,
    pub(crate) share: Option<ReleasedShare>,
}

/// The log of one node, compared with its signed heads.
#[derive(Debug)]
pub(crate) struct NodeLog {
    /// The number of entries.
    pub(crate) size: u64,
    /// The receipts by operation, in the order of the log.
    pub(crate) by_operation: BTreeMap<OperationId, Vec<Logged>>,
    /// The positions that a rollback lost.
    pub(crate) lost: BTreeSet<u64>,
    /// Whether the entries are exactly those under the newest head, which the node signed.
    pub(crate) is_sound: bool,
}

/// The logs of several nodes, compared with the signed heads.
#[derive(Debug, Default)]
pub struct NodeLogs {
    pub(crate) logs: BTreeMap<ParticipantIndex, NodeLog>,
    pub(crate) findings: Vec<Finding>,
    /// What cannot be checked, because a rollback lost entries.
    pub(crate) unchecked: Vec<String>,
}

impl NodeLogs {
    /// Compares the logs with their heads, and the heads with the nodes' keys.
    pub fn new(files: Vec<NodeLogFile>, roots: &Roots) -> Result<Self, NodeLogError> {
        let mut logs = Self::default();
        for file in files {
            let participant = file.participant;
            if logs.logs.contains_key(&participant) {
                return Err(NodeLogError::Twice(participant));
            }
            let log = logs.check(file, roots);
            logs.logs.insert(participant, log);
        }
        Ok(logs)
    }

    /// The operations for which a node released a share or changed its shares, with the node and position of the first such
    /// entry; and those with other receipts only.
    #[must_use]
    pub fn operations(&self) -> BTreeMap<OperationId, Option<(ParticipantIndex, u64)>> {
        let mut operations = BTreeMap::new();
        for (participant, log) in &self.logs {
            for (id, receipts) in &log.by_operation {
                let released = receipts.iter().find(|logged| releases(logged.statement.step));
                let released = released.map(|logged| (*participant, logged.log_index));
                let known = operations.entry(*id).or_insert(None);
                *known = known.or(released);
            }
        }
        operations
    }

    fn check(&mut self, file: NodeLogFile, roots: &Roots) -> NodeLog {
        let NodeLogFile { participant, entries, mut heads } = file;
        let n_before = self.findings.len();
        let at = |position: &str| format!("/nodes/{participant}{position}");
        if !roots.nodes.contains_key(&participant) {
            self.add(at(""), "the roots have no key for this node");
        }
        let is_signed = |head: &SignedLogHead| {
            let key = roots.nodes.get(&participant);
            head.head.participant == participant && key.is_some_and(|key| head.is_signed_by(key))
        };
        for (number, head) in heads.iter().enumerate() {
            if !is_signed(head) {
                self.add(at(&format!("/heads/{number}")), "the head is not signed by this node");
            }
        }
        heads.retain(is_signed);
        heads.sort_by_key(|head| head.head.size);
        let sizes: BTreeSet<u64> = heads.iter().map(|head| head.head.size).collect();
        let mut log =
            NodeLog { size: 0, by_operation: BTreeMap::new(), lost: BTreeSet::new(), is_sound: false };
        let mut frontier = Frontier::default();
        let mut root_at = BTreeMap::from([(0, frontier.root())]);
        for entry in entries {
            let position = at(&format!("/{}", log.size));
            match entry.leaf() {
                Ok(leaf) => drop(frontier.append(leaf)),
                Err(error) => self.add(position.clone(), error.to_string()),
            }
            if entry.log_index() != log.size {
                self.add(position.clone(), format!("the entry states the position {}", entry.log_index()));
            }
            log.size = log.size.saturating_add(1);
            if sizes.contains(&log.size) {
                root_at.insert(log.size, frontier.root());
            }
            if let Err(what) = log.add(entry, participant) {
                self.add(position, what);
            }
        }
        self.check_heads(participant, &log, &heads, &root_at);
        log.is_sound = self.findings.len() == n_before;
        log
    }

    fn check_heads(
        &mut self,
        participant: ParticipantIndex,
        log: &NodeLog,
        heads: &[SignedLogHead],
        root_at: &BTreeMap<u64, Hex32>,
    ) {
        let at = format!("/nodes/{participant}");
        let newest = heads.last().map_or(0, |head| head.head.size);
        if heads.is_empty() {
            self.add(at.clone(), "the log has no head that its node signed");
        } else if newest != log.size {
            let what = format!("the newest head is of {newest} entries, and the file has {}", log.size);
            self.add(at.clone(), what);
        }
        for head in heads.iter().map(|head| head.head).filter(|head| head.size <= log.size) {
            if root_at.get(&head.size) == Some(&head.root) {
                continue;
            }
            let what = format!("the entries lead to another root than the head of {} entries", head.size);
            match log.lost.first() {
                Some(lost) if *lost < head.size => {
                    let lost = format!("node {participant}: {what}: a rollback lost entries from {lost} on");
                    self.unchecked.push(lost);
                }
                Some(_) | None => self.add(at.clone(), what),
            }
        }
        if !log.lost.is_empty() {
            let n_lost = log.lost.len();
            self.unchecked.push(format!("node {participant}: a rollback lost {n_lost} entries of its log"));
        }
    }

    fn add(&mut self, at: String, what: impl Into<String>) {
        self.findings.push(Finding { at, what: what.into() });
    }
}

impl NodeLog {
    fn add(&mut self, entry: LogEntry, owner: ParticipantIndex) -> Result<(), &'static str> {
        match entry {
            LogEntry::Receipt { log_index, statement, share } => {
                let is_own = statement.participant == owner;
                let receipts = self.by_operation.entry(statement.operation_id).or_default();
                receipts.push(Logged { log_index, statement, share });
                if is_own { Ok(()) } else { Err("the entry is another node's") }
            }
            LogEntry::Lost { log_index } => {
                self.lost.insert(log_index);
                Ok(())
            }
            LogEntry::Readmitted { participant, .. } if participant != owner => {
                Err("the entry is another node's")
            }
            LogEntry::Readmitted { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
