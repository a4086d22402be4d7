//! Finds the participants to blame for a failed attempt at a ceremony.
//!
//! A node that gets a wrong message names its sender. The fleet does not believe that: it checks the message itself, from the
//! broadcasts that it relayed and the private message that the node reveals. An accusation without proof blames no participant; the
//! accused is chosen as a dealer last.

use crate::fan_out::{Answers, NodeSet};
use gateway_domain::roster::ParticipantIndex;
use gateway_node::{CeremonyAnswer, Code, Complaint, Envelope, Header, NodeError, NodeRejection};
use gateway_seal::node_key::Identities;
use gateway_seal::relay::verify_complaint;
use gateway_threshold::{Message, Protocol, Route, ThresholdError};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Messages that are checked on the caller's thread, in a few milliseconds. With 64 participants it takes a second, which must not block
/// an async worker thread.
const INLINE_MESSAGES_MAX: usize = 256;

/// The messages of one attempt, each from the node that is named as its sender.
pub(crate) struct Record {
    /// The identities that are pinned for the participants.
    identities: Identities,
    protocol: Protocol,
    ceremony: [u8; 32],
    sent: Vec<Envelope>,
}

/// An accusation, with the proof if there is one.
struct Accusation {
    by: ParticipantIndex,
    of: NodeSet,
    complaint: Option<Box<Complaint>>,
}

/// What an attempt's messages prove.
#[derive(Default)]
pub(crate) struct Verdict {
    /// The participants that deviated, and how.
    pub(crate) proven: BTreeMap<ParticipantIndex, String>,
    /// The participants that are accused without proof. One that accuses falsely is not known.
    pub(crate) accused: NodeSet,
}

impl Record {
    pub(crate) fn new(identities: Identities, protocol: Protocol, ceremony: [u8; 32]) -> Self {
        Self { identities, protocol, ceremony, sent: Vec::new() }
    }

    pub(crate) fn add(&mut self, envelope: &Envelope) {
        self.sent.push(envelope.clone());
    }

    /// The participants that withheld messages for which the others wait.
    pub(crate) fn missing(&self) -> NodeSet {
        let route = |envelope: &Envelope| -> Route {
            let Header { from, to, round, .. } = *envelope.header();
            (from, to, round)
        };
        let sent: BTreeSet<_> = self.sent.iter().map(route).collect();
        self.protocol.missing(&sent).into_iter().map(ParticipantIndex).collect()
    }

    /// Checks the accusations in the answers. Each becomes a lost attempt; a participant that is proven to have deviated gets a
    /// refusal of its own, which names it.
    pub(crate) async fn judge(self, answers: &mut Answers<CeremonyAnswer>) -> NodeSet {
        let accusations: Vec<_> =
            answers.iter().filter_map(|(by, answer)| accusation(*by, answer.as_ref().err()?)).collect();
        for Accusation { by, of, .. } in &accusations {
            let named: Vec<_> = of.iter().map(ToString::to_string).collect();
            let reason = Cow::Owned(format!("it accuses participant {} without proof", named.join(", ")));
            answers.insert(*by, Err(NodeError::Lost { reason }));
        }
        let verdict = if self.sent.len() <= INLINE_MESSAGES_MAX {
            self.verdict(&accusations)
        } else {
            tokio::task::spawn_blocking(move || self.verdict(&accusations)).await.unwrap_or_default()
        };
        let Verdict { proven, accused } = verdict;
        for (culprit, detail) in proven {
            let (code, culprits) = (Code::CeremonyMisbehaviour, vec![culprit]);
            let rejection = NodeRejection { code, detail, culprits, complaint: None };
            answers.insert(culprit, Err(rejection.into()));
        }
        accused
    }

    fn verdict(&self, accusations: &[Accusation]) -> Verdict {
        let mut verdict = Verdict::default();
        self.check_signatures(&mut verdict);
        let broadcasts = self.broadcasts(&mut verdict);
        let bodies = |wanted: u8| {
            let of_round = broadcasts.iter().filter(|((round, _), _)| *round == wanted);
            of_round.map(|((_, from), body)| (*from, body.clone())).collect::<BTreeMap<_, _>>()
        };
        let first = bodies(1);
        let message = |from, to, round, body: &[u8]| Message { from, to, round, body: body.to_vec().into() };
        for Accusation { by, of, complaint } in accusations {
            for ParticipantIndex(accused) in of {
                let own = broadcasts.iter().filter(|((_, from), _)| from == accused);
                for ((round, from), body) in own {
                    verdict.add(self.protocol.deviation(&message(*from, None, *round, body), &first));
                }
            }
            let Some((header, body)) = complaint.as_ref().and_then(|it| self.open_complaint(*by, it)) else {
                continue;
            };
            let Header { from, to, round, .. } = header;
            verdict.add(self.protocol.deviation(&message(from, to, round, body), &first));
        }
        // All got the same broadcasts, so an echo that differs from another is of a participant that deviated.
        let mut by_echo: BTreeMap<Vec<u8>, u16> = BTreeMap::new();
        let echoes = bodies(3);
        echoes.iter().for_each(|(from, body)| _ = by_echo.entry(body.clone()).or_insert(*from));
        for (body, from) in by_echo.iter().filter(|_| by_echo.len() > 1) {
            if let Some(error) = self.protocol.deviation(&message(*from, None, 3, body), &first) {
                for (from, _) in echoes.iter().filter(|(_, echo)| *echo == body) {
                    verdict.proven.insert(ParticipantIndex(*from), error.to_string());
                }
            }
        }
        let accused = accusations.iter().flat_map(|accusation| accusation.of.iter());
        verdict.accused = accused.filter(|of| !verdict.proven.contains_key(of)).copied().collect();
        verdict
    }

    /// A node signs what it sends. Its answers came from the node itself, and are relayed unaltered.
    fn check_signatures(&self, verdict: &mut Verdict) {
        for envelope in &self.sent {
            let Header { from, ceremony, .. } = *envelope.header();
            if ceremony != self.ceremony || envelope.verify(&self.identities).is_err() {
                let what = "sent a message that it did not sign for this ceremony".to_owned();
                verdict.proven.insert(ParticipantIndex(from), what);
            }
        }
    }

    /// The bodies of the broadcasts, by round and sender. A sender of two different ones is named.
    fn broadcasts(&self, verdict: &mut Verdict) -> BTreeMap<(u8, u16), Vec<u8>> {
        let mut broadcasts: BTreeMap<(u8, u16), Vec<u8>> = BTreeMap::new();
        for envelope in &self.sent {
            let Header { from, round, .. } = *envelope.header();
            let Some(body) = envelope.broadcast() else { continue };
            let first = broadcasts.entry((round, from)).or_insert_with(|| body.to_vec());
            if first != body {
                let what = format!("sent two different messages in round {round}");
                verdict.proven.insert(ParticipantIndex(from), what);
            }
        }
        broadcasts
    }

    /// The message of a complaint, if its accused signed it for the complaining node in this ceremony.
    fn open_complaint<'a>(
        &self,
        by: ParticipantIndex,
        complaint: &'a Complaint,
    ) -> Option<(Header, &'a [u8])> {
        let accused = self.identities.get(complaint.header().from)?;
        let (header, body) = verify_complaint(accused, complaint).ok()?;
        (header.ceremony == self.ceremony && header.to == Some(by.0)).then_some((header, body))
    }
}

impl Verdict {
    fn add(&mut self, found: Option<ThresholdError>) {
        let Some(error) = found else { return };
        for culprit in error.culprits() {
            self.proven.insert(ParticipantIndex(culprit), error.to_string());
        }
    }
}

fn accusation(by: ParticipantIndex, error: &NodeError) -> Option<Accusation> {
    match error {
        NodeError::Rejected(rejection) if rejection.code == Code::CeremonyMisbehaviour => Some(Accusation {
            by,
            of: rejection.culprits.iter().copied().collect(),
            complaint: rejection.complaint.clone(),
        }),
        NodeError::Rejected(_)
        | NodeError::Lost { .. }
        | NodeError::BundleUnknown { .. }
        | NodeError::Unavailable { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
    use super::*;
    use gateway_seal::node_key::NodeSecret;
    use gateway_seal::relay;
    use gateway_threshold::{SignatureProfile, keygen};
    use rand_core::OsRng;
    use zeroize::Zeroizing;

    const CEREMONY: [u8; 32] = [7; 32];

    fn secret(index: u16, byte: u8) -> NodeSecret {
        NodeSecret::from_seed(index, &Zeroizing::new([byte; 32]))
    }

    /// The record of a key generation of nodes 0 and 1, with the broadcast of node 0 as `signer` signs it.
    fn record(ceremony: [u8; 32], signer: &NodeSecret) -> Record {
        let nodes = [secret(0, 1), secret(1, 2)];
        let identities = Identities::new(nodes.iter().map(|node| node.identity().clone())).unwrap();
        let params = keygen::Params {
            profile: SignatureProfile::FrostEd25519Sha512,
            me: 0,
            roster: [0, 1].into(),
            threshold: 2,
            ceremony_id: CEREMONY,
        };
        let (_, messages) = keygen::start(params.clone(), &mut OsRng).unwrap();
        let header = Header { ceremony, from: 0, to: None, round: 1 };
        let envelope = relay::seal(signer, &identities, header, &messages[0].body).unwrap();
        let mut record = Record::new(identities, Protocol::KeyGeneration(params), CEREMONY);
        record.add(&envelope);
        record
    }

    #[test]
    fn message_that_its_sender_did_not_sign_for_the_ceremony_proves_its_fault() {
        assert!(record(CEREMONY, &secret(0, 1)).verdict(&[]).proven.is_empty());
        for record in [record(CEREMONY, &secret(0, 9)), record([8; 32], &secret(0, 1))] {
            let proven: Vec<_> = record.verdict(&[]).proven.into_keys().collect();
            assert_eq!(proven, [ParticipantIndex(0)]);
        }
        assert_eq!(record(CEREMONY, &secret(0, 1)).missing(), [ParticipantIndex(1)].into());
    }
}
