//! The end of a run: all faults are healed, every operation must come to rest, and every key must sign.

use crate::faults::{Counts, Ends};
use crate::gaps::Gap;
use crate::judge::Tracked;
use crate::machines::Machine;
use crate::parts::{ADMISSION_TTL_MS, APPROVAL_TTL_MS};
use crate::world::{N_REPLICAS, World};
use gateway_domain::ids::{KeyId, OperationId};
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::{Operation, Phase, Plan};
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::ports::ReadOperations as _;
use gateway_store::Fsck;
use std::collections::BTreeSet;

/// Rounds of requests and reconciliation after which an operation that is not at rest is stuck.
const ROUNDS_MAX: usize = 90;

/// Rounds after which an approver gives up what does not come to rest.
const PATIENCE: usize = 20;

/// Time between the rounds: longer than the engine's longest backoff, in milliseconds.
const ROUND_MS: u64 = 61_000;

/// The result of a run.
pub(crate) struct Verdict {
    pub(crate) counts: Counts,
    pub(crate) violations: Vec<(&'static str, String)>,
    pub(crate) gaps: Vec<(Gap, String)>,
    pub(crate) trace_hash: String,
    pub(crate) tail: String,
}

impl World<'_> {
    /// Ends the faults, brings everything to rest, and judges the end.
    pub(crate) fn finish(mut self) -> Verdict {
        self.heal();
        self.rest();
        let stuck: Vec<_> = self.open_operations();
        let mut stuck_keys = BTreeSet::new();
        for id in stuck {
            let operation = &self.judge.operations[&id].operation;
            let (number, phase) = (self.orders[&id].number, format!("{:?}", operation.phase));
            let kind = operation.intent.operation_type();
            let details = format!("op{number} {kind:?} is stuck in {phase}: {:?}", operation.failure);
            stuck_keys.insert(operation.key.key_id);
            let is_undecidable = operation.phase == Phase::Discarding;
            if is_undecidable && self.restored_since(operation).next().is_some() {
                self.judge.gaps.push((Gap::RestoredAndStuck, details));
            } else {
                self.judge.violation("stuck", details);
            }
        }
        self.check_keys(&stuck_keys);
        self.judge.check_no_hidden_shares(&self.orders);
        self.check_store();
        self.close()
    }

    fn heal(&mut self) {
        self.weather = 0;
        self.partitions.clear();
        self.authority_down_until = 0;
        for replica in &self.replicas {
            replica.clock.set_error(0);
        }
        self.authority.clock.set_error(0);
        for index in 0..self.machines.len() {
            self.machines[index].clock.set_error(0);
            if self.machines[index].node().is_none() {
                self.machines[index].open(self.shared);
            }
        }
        self.trace.line(format!("{} all faults are healed", self.turn));
    }

    /// Requests what each operation waits for, round after round.
    fn rest(&mut self) {
        for round in 0..ROUNDS_MAX {
            let (abandoned, open): (Vec<_>, Vec<_>) =
                self.open_operations().into_iter().partition(|id| self.is_abandoned(*id));
            if open.is_empty() {
                if abandoned.is_empty() {
                    return;
                }
                // No request will come: they end by themselves.
                self.clock.advance(APPROVAL_TTL_MS.max(ADMISSION_TTL_MS));
            }
            for id in open {
                self.advance(id, round % N_REPLICAS);
                self.drain();
            }
            for replica in 0..N_REPLICAS {
                self.reconcile(replica);
                self.drain();
            }
            self.readmit_stopped();
            if round >= PATIENCE {
                self.give_up_lost(round % N_REPLICAS);
                self.drain();
            }
            self.clock.advance(ROUND_MS);
        }
    }

    /// Aborts the changes of keys that wait for a node which was restored since their decision, and recovers the node's share.
    fn give_up_lost(&mut self, replica: usize) {
        for id in self.open_operations() {
            let operation = self.judge.operations[&id].operation.clone();
            let Some(plan) = operation.plan().filter(Plan::stages_epoch) else { continue };
            let restored: BTreeSet<_> = self.restored_since(&operation).collect();
            let lost: BTreeSet<_> = match &operation.phase {
                Phase::CommittingEpoch { unacked: waiting, .. }
                | Phase::DiscardingRest { undiscarded: waiting, .. } => waiting & &restored,
                Phase::Publishing => &plan.receivers & &restored,
                _ => BTreeSet::new(),
            };
            if !restored.is_empty() {
                self.abort(id, lost, replica);
            }
        }
        let is_new = |known: &&Tracked| {
            let Operation { id, phase, given_up, .. } = &known.operation;
            *phase == Phase::Published && !given_up.is_empty() && !self.recovered.contains(id)
        };
        let completed = self.judge.operations.values().filter(is_new).map(|known| known.operation.clone());
        for operation in completed.collect::<Vec<_>>() {
            self.recovered.insert(operation.id);
            let target = operation.admission.as_ref().and_then(|by| by.decision.target.clone());
            let key = target.and_then(|target| self.judge.keys.get(&target.key_id)).cloned();
            if let (Some(key), Some(lost)) = (key, operation.given_up.first()) {
                let order = self.desk.recovery(&key, *lost, &operation.given_up);
                self.place(order, replica);
                self.drain();
            }
        }
    }

    fn is_abandoned(&self, id: OperationId) -> bool {
        let phase = &self.judge.operations[&id].operation.phase;
        matches!(phase, Phase::PendingApproval | Phase::Admitted) && self.orders[&id].is_abandoned
    }

    fn readmit_stopped(&mut self) {
        for index in 0..self.machines.len() {
            if self.machines[index].node().is_some_and(|node| node.is_stopped()) {
                self.readmit(index);
            }
        }
    }

    /// Delivers messages until none is in flight.
    fn drain(&mut self) {
        loop {
            self.turn += 1;
            self.clock.advance(1);
            if !self.deliver_next() {
                break;
            }
        }
        if !self.requests.is_empty() {
            self.judge.violation("deadlock", format!("{} requests have no end", self.requests.len()));
            self.requests.clear();
        }
    }

    /// The operation's nodes that were restored and readmitted since its decision.
    fn restored_since(&self, operation: &Operation) -> impl Iterator<Item = ParticipantIndex> {
        let decided = operation.admission.as_deref().map(|by| by.decision.not_before_ms);
        let nodes = operation.planned_nodes();
        let is_restored = move |machine: &&Machine| {
            machine.readmitted_at.zip(decided).is_some_and(|(at, decided)| decided <= at)
        };
        let restored =
            self.machines.iter().filter(is_restored).map(|machine| ParticipantIndex(machine.index));
        restored.filter(move |node| nodes.contains(node))
    }

    /// Signs once with every key that signs, except those with an operation that was reported as stuck.
    fn check_keys(&mut self, stuck: &BTreeSet<KeyId>) {
        let signs = |key: &&CustodyKey| key.state.can_sign() && !stuck.contains(&key.key_id);
        let keys: Vec<_> = self.judge.keys.values().filter(signs).cloned().collect();
        let mut signing = Vec::new();
        for key in keys {
            let order = self.desk.last_signature(&key);
            signing.push((self.place(order, 0), key.key_ref.0));
            self.drain();
            self.counts.n_keys += 1;
        }
        self.rest();
        for (id, key_ref) in signing {
            let operation = self.judge.operations.get(&id).map(|known| &known.operation);
            if operation.is_none_or(|operation| operation.phase != Phase::Published) {
                let failure = operation.and_then(|operation| operation.failure.clone());
                let details = format!("op{} on `{key_ref}`: {failure:?}", self.orders[&id].number);
                self.judge.violation("lost-key", details);
            }
        }
    }

    /// The store's own rows must lead to what was written, and the whole store must be consistent.
    fn check_store(&mut self) {
        let ids: Vec<OperationId> = self.judge.operations.keys().copied().collect();
        for id in ids {
            let stored = self.shared.io.block_on(self.store.operation_load(id));
            let stored = stored.ok().flatten().map(|record| record.operation);
            if stored.as_deref() != Some(&self.judge.operations[&id].operation) {
                self.judge.violation("store", format!("operation {id} is not stored as written"));
            }
        }
        if self.seed.is_multiple_of(FSCK_EVERY) {
            let mut findings = Vec::new();
            let path = self.folder.join("gateway.db");
            self.shared.io.block_on(async {
                let mut fsck = Fsck::open(path.to_str().unwrap()).await.unwrap();
                fsck.check(&mut |finding| findings.push(finding.to_string())).await.unwrap();
                fsck.close().await;
            });
            for finding in findings {
                self.judge.violation("store", finding);
            }
        }
    }

    fn close(mut self) -> Verdict {
        for machine in &mut self.machines {
            machine.crash(self.shared, 0);
        }
        let store = self.store.clone();
        self.shared.io.block_on(store.close());
        let _busy = std::fs::remove_dir_all(&self.folder);
        self.count();
        let Self { counts, judge, trace, .. } = self;
        let tail = trace.tail();
        let (violations, gaps) = (judge.violations, judge.gaps);
        Verdict { counts, violations, gaps, trace_hash: trace.finish(), tail }
    }

    fn count(&mut self) {
        let counts = &mut self.counts;
        counts.n_runs = 1;
        for known in self.judge.operations.values() {
            counts.n_operations += 1;
            match known.operation.phase {
                Phase::Published => counts.n_published += 1,
                Phase::Failed => {
                    counts.n_failed += 1;
                    let code = known.operation.failure.as_ref().map_or("", |failure| failure.code.as_str());
                    *counts.failures.entry(code.to_owned()).or_default() += 1;
                }
                _ => {}
            }
            if known.operation.intent.signing_terms().is_none() {
                counts.n_key_changes += 1;
            }
        }
        counts.n_shares = self.judge.n_shares;
        for (kind, _) in &self.judge.violations {
            *counts.violations.entry((*kind).to_owned()).or_default() += 1;
        }
        for (gap, _) in &self.judge.gaps {
            *counts.gaps.entry(gap.name().to_owned()).or_default() += 1;
        }
        for (fault, point, id) in &self.met {
            let phase = id.and_then(|id| Some(self.judge.operations.get(&id)?.operation.phase.clone()));
            let key = (fault.name().to_owned(), (*point).to_owned());
            let ends: &mut Ends = counts.faults.entry(key).or_default();
            match phase {
                Some(Phase::Published) => ends.n_published += 1,
                Some(Phase::Failed) => ends.n_failed += 1,
                Some(_) | None => ends.n_none += 1,
            }
        }
    }
}

/// The whole store is checked in one run of this many, because it reads everything.
const FSCK_EVERY: u64 = 8;
