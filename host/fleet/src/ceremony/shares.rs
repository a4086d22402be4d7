//! Relays a ceremony that makes shares: delivers messages between the nodes until all future holders have staged a share of
//! the same key.
//!
//! A faulty relay can only stop the ceremony. NodeSet compare what they received before they use a result
//! (`host/threshold/protocols.md`). Their messages are signed, and private ones sealed (`host/seal/src/relay.rs`).

use crate::acks::{failures, is_lost, permanent_failure};
use crate::calls::{Calls, Missed, unavailable};
use crate::ceremony::blame::Record;
use crate::fan_out::{Answer, Answers, NodeSet};
use crate::fleet::Fleet;
use crate::node::{Nodes, RuntimeNode};
use gateway_domain::admission::Target;
use gateway_domain::intent::{Intent, OperationType};
use gateway_domain::key::{CustodyKey, Epoch, PublicKey, epoch_root};
use gateway_domain::operation::{Outcome, Plan, Staged};
use gateway_domain::receipt::{NodeReceipt, ReceiptKind};
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::Unavailable;
use gateway_node::{Call, CeremonyAnswer, CeremonyStart, Envelope, Header, ceremony_id, protocol};
use gateway_seal::node_key::Identities;
use gateway_threshold::PublicKeys;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often messages are relayed at most. The longest protocol needs three times.
const TURNS_MAX: usize = 8;

/// The answer of a node that has staged its share.
struct StagedShare {
    keys: Box<PublicKeys>,
    receipt: NodeReceipt,
}

/// One attempt at a ceremony.
struct Ceremony<'a> {
    calls: &'a Calls<'a>,
    target: &'a Target,
    /// The nodes that take part: the future holders and the dealers.
    nodes: NodeSet,
    start: CeremonyStart,
}

impl<N: Nodes> Fleet<N> {
    pub(crate) async fn make_shares(
        &self,
        calls: &Calls<'_>,
        key: Option<&CustodyKey>,
    ) -> Result<Outcome, Unavailable> {
        let ceremony = self.ceremony(calls, key)?;
        // Opening a node pins its identity, which the others need. If it does not open, the call below returns the error.
        for node in &ceremony.nodes {
            let _ = self.node(*node).await;
        }
        let mut answers = self.begin(&ceremony).await?;
        let mut record = self.record(&ceremony, key)?;
        let mut staged = BTreeMap::new();
        for turn in 1..=TURNS_MAX {
            let mail = sort_answers(&mut answers, &ceremony.nodes, &mut staged, &mut record);
            if calls.plan.receivers.iter().all(|node| staged.contains_key(node)) {
                return self.all_staged(&ceremony, staged).await;
            }
            if answers.values().any(Result::is_err) {
                return self.failed(calls, answers, &staged, record).await;
            }
            if mail.is_empty() {
                break;
            }
            let deliver = |node: Arc<N::Node>, (call, mail): (Call, Vec<Envelope>)| -> Answer<'_, _> {
                Box::pin(async move { node.ceremony_deliver(&call, &mail).await })
            };
            // In the last turn nodes stage their shares.
            let after_each = if turn == ceremony.n_turns() { "mid-execute" } else { "mid-ceremony" };
            let mut calls_by_node = Vec::new();
            for (node, mail) in mail {
                calls_by_node.push((node, (calls.call(node)?, mail)));
            }
            answers = self.call_all(calls_by_node, after_each, |_| false, deliver).await;
        }
        // Each node waits for messages of others. Only the relay knows which were never sent.
        let missing = record.missing();
        self.suspects.add(missing.iter().copied());
        let able = unstaged(&calls.plan, &staged, &NodeSet::new());
        let reason = match missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ") {
            names if names.is_empty() => "only some participants staged a share in this attempt".to_owned(),
            names => format!("messages of participant {names} are missing"),
        };
        self.give_up(calls, &able, reason).await
    }

    /// The record of an attempt, without messages.
    fn record(&self, ceremony: &Ceremony<'_>, key: Option<&CustodyKey>) -> Result<Record, Unavailable> {
        let Ceremony { calls, nodes, start, .. } = ceremony;
        let failed = |error: &dyn std::error::Error| unavailable(&error.to_string());
        let identities = Identities::new(nodes.iter().filter_map(|node| self.pinned(*node)));
        let identities = identities.map_err(|error| failed(&error))?;
        let me = nodes.first().copied().ok_or_else(|| unavailable("the ceremony has no nodes"))?;
        let id = ceremony_id(&calls.call(me)?, start).map_err(|error| failed(&error))?;
        let keys = match &calls.operation.intent {
            Intent::KeyCreate(_) => None,
            Intent::Payment(_)
            | Intent::AssetAction(_)
            | Intent::Refresh(_)
            | Intent::Reshare(_)
            | Intent::Rotate(_)
            | Intent::Recover(_) => {
                let key = key.ok_or_else(|| unavailable("the key is unknown"))?;
                Some(self.public_keys(key).map_err(|why| unavailable(&why))?)
            }
        };
        let intent = &calls.operation.intent;
        let protocol = protocol(intent, calls.decision(), start, keys.as_deref(), me, id);
        Ok(Record::new(identities, protocol.map_err(|error| failed(&error))?, id))
    }

    async fn begin(&self, ceremony: &Ceremony<'_>) -> Result<Answers<CeremonyAnswer>, Unavailable> {
        let Ceremony { calls, nodes, start, .. } = ceremony;
        let begin = |node: Arc<N::Node>, (call, missed): (Call, Missed)| -> Answer<'_, _> {
            Box::pin(async move {
                missed.catch_up(self, &node, || Box::pin(node.ceremony_start(&call, start))).await
            })
        };
        let calls_by_node = calls.with_catch_up(nodes)?;
        Ok(self.call_all(calls_by_node, "mid-ceremony-start", |_| false, begin).await)
    }

    fn ceremony<'a>(
        &self,
        calls: &'a Calls<'a>,
        key: Option<&CustodyKey>,
    ) -> Result<Ceremony<'a>, Unavailable> {
        let decision = calls.decision();
        let target = decision.target.as_ref().ok_or_else(|| unavailable("the decision makes no shares"))?;
        let dealers = match decision.operation_type {
            OperationType::Refresh | OperationType::Reshare => self.choose_dealers(&calls.plan),
            OperationType::KeyCreate
            | OperationType::Rotate
            | OperationType::Recover
            | OperationType::Sign => NodeSet::new(),
        };
        let package = if decision.operation_type == OperationType::KeyCreate {
            Vec::new()
        } else {
            let key = key.filter(|key| key.epoch.root == decision.epoch_root);
            let key = key.ok_or_else(|| unavailable("the key is not in the admitted generation"))?;
            self.public_keys(key).map_err(|why| unavailable(&why))?.to_bytes()
        };
        let nodes = calls.plan.receivers.union(&dealers).copied().collect();
        let discarded = calls.operation.discarded_attempts.clone();
        Ok(Ceremony { calls, target, nodes, start: CeremonyStart { dealers, package, discarded } })
    }

    /// Chooses as many dealers as the plan requires: holders that stay first, then those that leave, and suspects last.
    fn choose_dealers(&self, plan: &Plan) -> NodeSet {
        let Plan { holders, receivers, n_holders_required, .. } = plan;
        let (staying, leaving) = (holders.intersection(receivers), holders.difference(receivers));
        self.suspects.choose(staying.chain(leaving).copied(), *n_holders_required)
    }

    /// The outcome of an attempt in which nodes failed. A permanent refusal ends the operation. An accusation without proof
    /// loses the attempt, and the accused deal last in the next one. If a node is unavailable, the
    /// same attempt is tried again later, unless the node only deals and other holders can deal. Otherwise the attempt is lost.
    async fn failed(
        &self,
        calls: &Calls<'_>,
        mut answers: Answers<CeremonyAnswer>,
        staged: &BTreeMap<ParticipantIndex, StagedShare>,
        record: Record,
    ) -> Result<Outcome, Unavailable> {
        let plan = &calls.plan;
        let accused = record.judge(&mut answers).await;
        self.suspects.add(accused.iter().copied());
        if let Some(failure) = permanent_failure(&answers, answers.len()) {
            // The next operation should choose other dealers.
            self.suspects.add(failure.culprits.iter().copied());
            return Ok(Outcome::Rejected { failure, policy: None });
        }
        let why = failures(&answers);
        let absent = answers.iter().filter(|(_, answer)| !answer.is_ok() && !is_lost(answer));
        let absent: NodeSet = absent.map(|(node, _)| *node).collect();
        let able = unstaged(plan, staged, &absent);
        if absent.is_empty() {
            return self.give_up(calls, &able, why).await;
        }
        self.suspects.add(absent.iter().copied());
        if absent.is_disjoint(&plan.receivers) && self.choose_dealers(plan).is_disjoint(&absent) {
            return self.give_up(calls, &able, why).await;
        }
        // No other dealers are left: holders that are available now are no longer suspects.
        self.suspects.clear(plan.holders.difference(&absent));
        Err(unavailable(&why))
    }

    /// The outcome when all future holders have staged a share: checks that it is the same key, and verifies their receipts.
    async fn all_staged(
        &self,
        ceremony: &Ceremony<'_>,
        staged: BTreeMap<ParticipantIndex, StagedShare>,
    ) -> Result<Outcome, Unavailable> {
        let Ceremony { calls, target, .. } = ceremony;
        let Target { key_id, epoch, participants, threshold } = target;
        let shares: BTreeMap<_, _> =
            staged.into_iter().filter(|(node, _)| calls.plan.receivers.contains(node)).collect();
        let keys = shares.values().next().map(|share| share.keys.clone());
        let keys = keys.ok_or_else(|| unavailable("no node staged a share"))?;
        if shares.values().any(|share| share.keys != keys) {
            let reason = "participants staged different keys".to_owned();
            return self.give_up(calls, &NodeSet::new(), reason).await;
        }
        let package_hex = hex::encode(keys.to_bytes());
        let root =
            epoch_root(*key_id, epoch, &package_hex).map_err(|error| unavailable(&error.to_string()))?;
        let kind = ReceiptKind::Staged { attempt: calls.effect.id.attempt, epoch_root: root };
        let answers = shares.into_iter().map(|(node, share)| (node, Ok(share.receipt))).collect();
        let answers = self.verify_receipts(calls, &kind, answers, |receipt| receipt);
        // Every future holder must have a valid receipt. A new key can be given up without one; the shares of a key in use are
        // staged everywhere, so they wait for it.
        if let Some(failure) = permanent_failure(&answers, answers.len()) {
            return match calls.decision().operation_type {
                OperationType::KeyCreate | OperationType::Rotate => {
                    Ok(Outcome::Rejected { failure, policy: None })
                }
                OperationType::Refresh
                | OperationType::Reshare
                | OperationType::Recover
                | OperationType::Sign => Err(unavailable(&failure.detail)),
            };
        }
        let staged = Box::new(Staged {
            epoch: Epoch { name: epoch.clone(), root },
            public: PublicKey { public_key_hex: hex::encode(keys.public_key()), package_hex },
            participants: participants.clone(),
            threshold: *threshold,
        });
        let receipts = answers.into_values().collect::<Result<_, _>>();
        let receipts = receipts.map_err(|error| unavailable(&error.to_string()))?;
        Ok(Outcome::Staged { staged, receipts })
    }
}

/// The receivers that have not staged a share in this attempt and are not absent.
fn unstaged(plan: &Plan, staged: &BTreeMap<ParticipantIndex, StagedShare>, absent: &NodeSet) -> NodeSet {
    let receivers = plan.receivers.difference(absent).copied();
    receivers.filter(|node| !staged.contains_key(node)).collect()
}

impl Ceremony<'_> {
    /// How often messages are relayed: once for each protocol round after the first messages.
    const fn n_turns(&self) -> usize {
        match self.calls.decision().operation_type {
            OperationType::KeyCreate | OperationType::Rotate => 3,
            OperationType::Refresh
            | OperationType::Reshare
            | OperationType::Recover
            | OperationType::Sign => 2,
        }
    }
}

/// Takes the messages out of the answers and returns them by recipient. NodeSet that have staged a share are added to `staged`
/// and get no further messages.
fn sort_answers(
    answers: &mut Answers<CeremonyAnswer>,
    nodes: &NodeSet,
    staged: &mut BTreeMap<ParticipantIndex, StagedShare>,
    record: &mut Record,
) -> BTreeMap<ParticipantIndex, Vec<Envelope>> {
    let mut mail: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let mut sent = Vec::new();
    for (node, answer) in answers.iter_mut() {
        match answer {
            // Drops envelopes that name another sender than the node that returned them.
            Ok(CeremonyAnswer::Send(mail)) => {
                sent.extend(mail.drain(..).filter(|envelope| envelope.header().from == node.0));
            }
            Ok(CeremonyAnswer::Staged { keys, receipt }) => {
                staged.insert(*node, StagedShare { keys: keys.clone(), receipt: receipt.clone() });
            }
            Err(_) => {}
        }
    }
    for envelope in sent {
        record.add(&envelope);
        let Header { from, to, .. } = *envelope.header();
        let others = nodes.iter().filter(|node| node.0 != from && !staged.contains_key(node));
        for node in others.filter(|node| to.is_none_or(|to| to == node.0)) {
            mail.entry(*node).or_default().push(envelope.clone());
        }
    }
    mail
}
