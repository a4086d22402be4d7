//! Relaying a key generation: every message to whom it is for, until all have staged their share of one key.
//!
//! The relay is trusted with nothing but progress: nodes compare what they saw before any of them has a key
//! (`host/threshold/protocols.md`). In one process the channel between them is memory, so it is private and `from` is
//! who the message came from; nodes in other processes will need sealed envelopes.

use crate::acks::{is_lost, refused_for_good, silent};
use crate::calls::{Calls, unavailable};
use crate::fan_out::{Answer, Answers};
use crate::fleet::EmbeddedFleet;
use crate::signing::borrowed;
use crate::steps::{Missed, questions};
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::key::{Epoch, PublicKey, epoch_root};
use gateway_domain::operation::{Effect, Outcome, Staged};
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::Unavailable;
use gateway_engine::secret::Secrets;
use gateway_node::{Call, KeygenAnswer, Node};
use gateway_threshold::{Message, PublicKeys};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zeroize::Zeroizing;

type Nodes = BTreeSet<ParticipantIndex>;

/// Rounds of the protocol.
const ROUNDS: usize = 3;

/// Turns of relaying: three rounds, and one for nodes that had staged already. More means that nobody gets further.
const TURNS_MAX: usize = 8;

impl EmbeddedFleet {
    pub(crate) async fn make_key(
        &self,
        calls: Calls<'_>,
        effect: &Effect,
        nodes: &Nodes,
        secrets: &Secrets,
    ) -> Result<Outcome, Unavailable> {
        let before = Missed::before(&calls)?;
        let secrets = &borrowed(secrets);
        let ask = |node: Arc<Node>, (call, missed): (Call, Missed)| -> Answer<'_, _> {
            Box::pin(async move { missed.bring(&node, || Box::pin(node.keygen_start(&call, secrets))).await })
        };
        let asked = questions(calls, effect, nodes, |node| before.ceremony(node))?;
        let mut answers = self.ask(asked, "mid-keygen-start", ask).await;
        let mut staged = BTreeMap::new();
        for turn in 1..=TURNS_MAX {
            if answers.values().any(Result::is_err) {
                return failed(&answers);
            }
            let mail = sort(answers, nodes, &mut staged);
            if staged.len() == nodes.len() {
                return all_staged(calls, staged);
            }
            if mail.is_empty() {
                break;
            }
            let deliver = |node: Arc<Node>, (call, messages): (Call, Vec<Message>)| -> Answer<'_, _> {
                Box::pin(async move { node.keygen_deliver(&call, messages).await })
            };
            // In the last round the first node stages its share.
            let after_each = if turn == ROUNDS { "mid-execute" } else { "mid-keygen" };
            let mut asked = Vec::new();
            for (node, messages) in mail {
                asked.push((node, (calls.call(effect, node)?, messages)));
            }
            answers = self.ask(asked, after_each, deliver).await;
        }
        Ok(Outcome::AttemptLost("only some participants have the attempt's key".to_owned()))
    }
}

/// Who needs what next; nodes that are done go to `staged` and get no more mail.
fn sort(
    answers: Answers<KeygenAnswer>,
    nodes: &Nodes,
    staged: &mut BTreeMap<ParticipantIndex, Box<PublicKeys>>,
) -> BTreeMap<ParticipantIndex, Vec<Message>> {
    let mut mail: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let mut sent = Vec::new();
    for (node, answer) in answers {
        match answer {
            Ok(KeygenAnswer::Send(messages)) => sent.extend(messages),
            Ok(KeygenAnswer::Staged(keys)) => _ = staged.insert(node, keys),
            Err(_) => {}
        }
    }
    for message in sent {
        let others = nodes.iter().filter(|node| node.0 != message.from && !staged.contains_key(node));
        for node in others.filter(|node| message.to.is_none_or(|to| to == node.0)) {
            mail.entry(*node).or_default().push(copy(&message));
        }
    }
    mail
}

fn copy(message: &Message) -> Message {
    let Message { from, to, round, ref body } = *message;
    Message { from, to, round, body: Zeroizing::new(body.to_vec()) }
}

/// Key generation needs everybody: a refusal ends it, an absent node delays it, a lost ceremony is begun anew.
fn failed(answers: &Answers<KeygenAnswer>) -> Result<Outcome, Unavailable> {
    if let Some(failure) = refused_for_good(answers, answers.len()) {
        return Ok(Outcome::Rejected { failure, policy: None });
    }
    let why = silent(answers);
    let all_can = answers.values().all(|answer| answer.is_ok() || is_lost(answer));
    if all_can { Ok(Outcome::AttemptLost(why)) } else { Err(unavailable(&why)) }
}

/// The one key of all participants.
fn all_staged(
    calls: Calls<'_>,
    staged: BTreeMap<ParticipantIndex, Box<PublicKeys>>,
) -> Result<Outcome, Unavailable> {
    let admission = calls.operation.admission.as_deref();
    let AdmissionDecision { key_id, epoch, participants, threshold, .. } =
        &admission.ok_or_else(|| unavailable("the operation has no decision"))?.decision;
    let mut packages = staged.into_values();
    let keys = packages.next().ok_or_else(|| unavailable("nobody staged a share"))?;
    if packages.any(|other| other != keys) {
        return Ok(Outcome::AttemptLost("participants staged different keys".to_owned()));
    }
    let package_hex = hex::encode(keys.to_bytes());
    let root = epoch_root(*key_id, epoch, &package_hex).map_err(|error| unavailable(&error.to_string()))?;
    Ok(Outcome::Staged(Box::new(Staged {
        epoch: Epoch { name: epoch.clone(), root },
        public: PublicKey { public_key_hex: hex::encode(keys.public_key()), package_hex },
        participants: participants.clone(),
        threshold: *threshold,
    })))
}
