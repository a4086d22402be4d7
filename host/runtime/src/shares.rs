//! Relaying a ceremony that makes shares: every message to whom it is for, until all who are to hold one have staged
//! their share of one key.
//!
//! The relay is trusted with nothing but progress: nodes compare what they saw before any of them has a share
//! (`host/threshold/protocols.md`), and what they say is signed and, where it is private, sealed
//! (`host/seal/src/relay.rs`).

use crate::acks::{is_lost, refused_for_good, silent};
use crate::calls::{Calls, unavailable};
use crate::fan_out::{Answer, Answers};
use crate::fleet::EmbeddedFleet;
use crate::steps::{Missed, questions};
use gateway_domain::admission::{AdmissionDecision, Target};
use gateway_domain::intent::OperationType;
use gateway_domain::key::{CustodyKey, Epoch, PublicKey, epoch_root};
use gateway_domain::operation::{Effect, Outcome, Staged};
use gateway_domain::receipt::{NodeReceipt, ReceiptKind};
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::Unavailable;
use gateway_node::{Call, CeremonyAnswer, CeremonyStart, Envelope, Header, Node};
use gateway_threshold::PublicKeys;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Nodes = BTreeSet<ParticipantIndex>;

/// Turns of relaying, generously: the longest protocol has three. More means that nobody gets further.
const TURNS_MAX: usize = 8;

/// What a node says that has ended its part.
struct Held {
    keys: Box<PublicKeys>,
    receipt: NodeReceipt,
}

/// A ceremony, from the admission and the key.
struct Ceremony<'a> {
    calls: Calls<'a>,
    decision: &'a AdmissionDecision,
    target: &'a Target,
    /// Those who take part: who will hold a share, and who deals one.
    nodes: Nodes,
    start: CeremonyStart,
}

impl EmbeddedFleet {
    pub(crate) async fn make_shares(
        &self,
        calls: Calls<'_>,
        effect: &Effect,
        key: Option<&CustodyKey>,
    ) -> Result<Outcome, Unavailable> {
        let ceremony = self.ceremony(calls, key)?;
        self.introduce(&ceremony.nodes).await;
        let mut answers = self.begin(&ceremony, effect).await?;
        let mut staged = BTreeMap::new();
        for turn in 1..=TURNS_MAX {
            let mail = sort(&mut answers, &ceremony.nodes, &mut staged);
            if ceremony.target.participants.iter().all(|node| staged.contains_key(&node)) {
                return self.all_staged(&ceremony, effect, staged);
            }
            if answers.values().any(Result::is_err) {
                return self.failed(&ceremony, &answers);
            }
            if mail.is_empty() {
                break;
            }
            let deliver = |node: Arc<Node>, (call, mail): (Call, Vec<Envelope>)| -> Answer<'_, _> {
                Box::pin(async move { node.ceremony_deliver(&call, &mail).await })
            };
            // In the last turn nodes stage their shares, one after the other.
            let after_each = if turn == ceremony.n_turns() { "mid-execute" } else { "mid-ceremony" };
            let mut asked = Vec::new();
            for (node, mail) in mail {
                asked.push((node, (calls.call(effect, node)?, mail)));
            }
            answers = self.ask(asked, after_each, deliver).await;
        }
        Ok(Outcome::AttemptLost("only some participants have the attempt's shares".to_owned()))
    }

    /// Opens the nodes, so that each knows the others; one that does not open will say so when it is asked.
    async fn introduce(&self, nodes: &Nodes) {
        for node in nodes {
            let _ = self.node(*node).await;
        }
    }

    async fn begin(
        &self,
        ceremony: &Ceremony<'_>,
        effect: &Effect,
    ) -> Result<Answers<CeremonyAnswer>, Unavailable> {
        let before = Missed::before(&ceremony.calls)?;
        let start = &ceremony.start;
        let ask = |node: Arc<Node>, (call, missed): (Call, Missed)| -> Answer<'_, _> {
            Box::pin(async move { missed.bring(&node, || Box::pin(node.ceremony_start(&call, start))).await })
        };
        let asked = questions(ceremony.calls, effect, &ceremony.nodes, |node| before.ceremony(node))?;
        Ok(self.ask(asked, "mid-ceremony-start", ask).await)
    }

    fn ceremony<'a>(&self, calls: Calls<'a>, key: Option<&CustodyKey>) -> Result<Ceremony<'a>, Unavailable> {
        let decision = calls.decision;
        let target = decision.target.as_ref().ok_or_else(|| unavailable("the decision makes no shares"))?;
        let receivers = target.participants.as_set();
        let dealers = match (decision.operation_type, &decision.holders) {
            (OperationType::Refresh | OperationType::Reshare, Some(holders)) => {
                self.dealers(holders.as_set(), receivers, decision.threshold.count())
            }
            _ => Nodes::new(),
        };
        let package = match decision.operation_type {
            OperationType::KeyCreate => Vec::new(),
            _ => self.present(decision, key)?.to_bytes(),
        };
        let nodes = receivers.union(&dealers).copied().collect();
        Ok(Ceremony { calls, decision, target, nodes, start: CeremonyStart { dealers, package } })
    }

    /// Holders that stay are needed anyway; of those that leave, the ones that did not fail lately.
    fn dealers(&self, holders: &Nodes, receivers: &Nodes, threshold: usize) -> Nodes {
        let staying: Nodes = holders.intersection(receivers).copied().take(threshold).collect();
        let n_missing = threshold.saturating_sub(staying.len());
        let leaving = self.suspects.choose(holders.difference(receivers).copied(), n_missing);
        staying.union(&leaving).copied().collect()
    }

    /// The key's public package in the generation that was admitted.
    fn present(
        &self,
        decision: &AdmissionDecision,
        key: Option<&CustodyKey>,
    ) -> Result<Arc<PublicKeys>, Unavailable> {
        let key = key.filter(|key| key.epoch.root == decision.epoch_root);
        let key = key.ok_or_else(|| unavailable("the key is not in the admitted generation"))?;
        self.public_keys(key).map_err(|why| unavailable(&why))
    }

    /// A refusal ends it, an absent node that is to hold a share delays it, a lost ceremony is begun anew. One that only
    /// deals is replaced, as long as there are others.
    fn failed(
        &self,
        ceremony: &Ceremony<'_>,
        answers: &Answers<CeremonyAnswer>,
    ) -> Result<Outcome, Unavailable> {
        if let Some(failure) = refused_for_good(answers, answers.len()) {
            // Another operation should not begin with the one that spoilt this.
            self.suspects.add(failure.culprits.iter().copied());
            return Ok(Outcome::Rejected { failure, policy: None });
        }
        let why = silent(answers);
        let absent = answers.iter().filter(|(_, answer)| !answer.is_ok() && !is_lost(answer));
        let absent: Nodes = absent.map(|(node, _)| *node).collect();
        if absent.is_empty() {
            return Ok(Outcome::AttemptLost(why));
        }
        self.suspects.add(absent.iter().copied());
        if absent.is_disjoint(ceremony.target.participants.as_set())
            && self.has_other_dealers(ceremony, &absent)
        {
            return Ok(Outcome::AttemptLost(why));
        }
        // Nobody is left that did not fail: those who are not away now get another chance.
        let holders = ceremony.decision.holders.iter().flat_map(|holders| holders.as_set());
        self.suspects.clear(holders.filter(|holder| !absent.contains(holder)));
        Err(unavailable(&why))
    }

    /// The one key of all that will hold its shares, with their word for it.
    fn all_staged(
        &self,
        ceremony: &Ceremony<'_>,
        effect: &Effect,
        staged: BTreeMap<ParticipantIndex, Held>,
    ) -> Result<Outcome, Unavailable> {
        let Target { key_id, epoch, participants, threshold } = ceremony.target;
        let held: BTreeMap<_, _> =
            staged.into_iter().filter(|(node, _)| participants.as_set().contains(node)).collect();
        let keys = held.values().next().map(|held| held.keys.clone());
        let keys = keys.ok_or_else(|| unavailable("nobody staged a share"))?;
        if held.values().any(|held| held.keys != keys) {
            return Ok(Outcome::AttemptLost("participants staged different keys".to_owned()));
        }
        let package_hex = hex::encode(keys.to_bytes());
        let root =
            epoch_root(*key_id, epoch, &package_hex).map_err(|error| unavailable(&error.to_string()))?;
        let deed = ReceiptKind::Staged { attempt: effect.id.attempt, epoch_root: root };
        let answers = held.into_iter().map(|(node, held)| (node, Ok(held.receipt))).collect();
        let answers = self.attested(&ceremony.calls, &deed, answers, |receipt| receipt);
        // Everybody who is to hold a share is needed.
        if let Some(failure) = refused_for_good(&answers, answers.len()) {
            return Ok(Outcome::Rejected { failure, policy: None });
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

    fn has_other_dealers(&self, ceremony: &Ceremony<'_>, absent: &Nodes) -> bool {
        let Some(holders) = &ceremony.decision.holders else { return false };
        let threshold = ceremony.decision.threshold.count();
        self.dealers(holders.as_set(), ceremony.target.participants.as_set(), threshold).is_disjoint(absent)
    }
}

impl Ceremony<'_> {
    /// How often messages are relayed: as often as the protocol has rounds after the first word.
    const fn n_turns(&self) -> usize {
        match self.decision.operation_type {
            OperationType::KeyCreate | OperationType::Rotate => 3,
            OperationType::Refresh
            | OperationType::Reshare
            | OperationType::Recover
            | OperationType::Sign => 2,
        }
    }
}

/// Who needs what next; nodes that are done go to `staged` and get no more mail.
fn sort(
    answers: &mut Answers<CeremonyAnswer>,
    nodes: &Nodes,
    staged: &mut BTreeMap<ParticipantIndex, Held>,
) -> BTreeMap<ParticipantIndex, Vec<Envelope>> {
    let mut mail: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let mut sent = Vec::new();
    for (node, answer) in answers.iter_mut() {
        match answer {
            // Nobody speaks for another, whatever the envelope says.
            Ok(CeremonyAnswer::Send(mail)) => {
                sent.extend(mail.drain(..).filter(|envelope| envelope.header().from == node.0));
            }
            Ok(CeremonyAnswer::Staged { keys, receipt }) => {
                staged.insert(*node, Held { keys: keys.clone(), receipt: receipt.clone() });
            }
            Err(_) => {}
        }
    }
    for envelope in sent {
        let Header { from, to, .. } = *envelope.header();
        let others = nodes.iter().filter(|node| node.0 != from && !staged.contains_key(node));
        for node in others.filter(|node| to.is_none_or(|to| to == node.0)) {
            mail.entry(*node).or_default().push(envelope.clone());
        }
    }
    mail
}
