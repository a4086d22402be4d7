//! The attacker in a ceremony: it runs the protocol with its own identity and share, changes what it sends, and relays the messages
//! of the honest nodes.

use super::deployment::{ATTACKER, Deployment};
use super::operation::Operation;
use gateway_domain::operation::EffectStep;
use gateway_domain::receipt::NodeReceipt;
use gateway_domain::roster::ParticipantIndex;
use gateway_node::samples::mail;
use gateway_node::{CeremonyAnswer, CeremonyStart, Code, NodeError};
use gateway_seal::relay::{self, Envelope, Header};
use gateway_service::process::Fault;
use gateway_threshold::{Message, Output, Progress, PublicKeys, Session, SignatureProfile};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// What the attacker knows when it sends a message.
pub(crate) struct View<'a> {
    pub(crate) profile: SignatureProfile,
    /// The messages that it has read in this attempt.
    pub(crate) seen: &'a [Message],
}

/// Returns what the attacker sends instead of a message.
pub(crate) type Tamper = fn(&View<'_>, Message) -> Vec<Message>;

/// One run of the protocol by the attacker. An attacker that shows each honest node another face runs several.
pub(crate) struct Face {
    /// The honest nodes that get its messages.
    pub(crate) recipients: &'static [u16],
    pub(crate) session: Session,
    /// Messages to send next.
    pub(crate) outgoing: Vec<Message>,
}

/// An honest node at the end of an attempt.
#[derive(Debug)]
pub(crate) enum Standing {
    /// It has no share, and waits for messages.
    Waits,
    /// It has a new share.
    Staged(Box<PublicKeys>, NodeReceipt),
    /// It has no share, and will not get one in this attempt.
    Failed(NodeError),
}

/// The end of an attempt.
pub(crate) struct Ended {
    /// The honest nodes, by participant.
    pub(crate) honest: BTreeMap<u16, Standing>,
    /// The attacker's own result, of its first face that has one.
    pub(crate) own: Option<Output>,
}

/// How an attack must end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    /// These nodes name the attacker, and no node has a share.
    Named(&'static [u16]),
    /// These nodes give up and blame no participant, and no node has a share.
    Unattributed(&'static [u16]),
    /// This node, the last that gets a secret value, names the attacker. The others may have staged shares, which are not promoted
    /// without its receipt.
    NamedByLast(u16),
    /// No node has a share.
    NoShare,
    /// The trick is harmless: all nodes have shares of the same key.
    Completes,
}

impl Ended {
    /// Whether the attempt ended as it must, and what the honest nodes did.
    pub(crate) fn judge(&self, ending: Ending) -> (bool, String) {
        let has_no_share = !self.honest.values().any(|standing| matches!(standing, Standing::Staged(..)));
        let all = |nodes: &[u16], is: fn(&Standing) -> bool| {
            nodes.iter().all(|node| self.honest.get(node).is_some_and(is))
        };
        let is_ok = match ending {
            Ending::Named(nodes) => has_no_share && all(nodes, names_the_attacker),
            Ending::Unattributed(nodes) => has_no_share && all(nodes, is_lost),
            Ending::NamedByLast(node) => all(&[node], names_the_attacker),
            Ending::NoShare => has_no_share,
            Ending::Completes => self.agreed_keys().is_some(),
        };
        let mut by_description: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (node, standing) in &self.honest {
            by_description.entry(describe(standing)).or_default().push(node.to_string());
        }
        let described =
            by_description.iter().map(|(text, nodes)| format!("node {} {text}", nodes.join(" and ")));
        (is_ok, described.collect::<Vec<_>>().join("; "))
    }

    /// The public keys, if every participant has them, and the same ones.
    pub(crate) fn agreed_keys(&self) -> Option<&PublicKeys> {
        let own = &self.own.as_ref()?.keys;
        let agrees = |standing: &Standing| matches!(standing, Standing::Staged(keys, _) if **keys == *own);
        self.honest.values().all(agrees).then_some(own)
    }

    /// The receipts of the honest nodes.
    pub(crate) fn receipts(&self) -> Vec<NodeReceipt> {
        let receipt = |standing: &Standing| match standing {
            Standing::Staged(_, receipt) => Some(receipt.clone()),
            Standing::Waits | Standing::Failed(_) => None,
        };
        self.honest.values().filter_map(receipt).collect()
    }
}

fn names_the_attacker(standing: &Standing) -> bool {
    matches!(standing, Standing::Failed(NodeError::Rejected(rejection))
        if rejection.code == Code::CeremonyMisbehaviour
            && rejection.culprits == [ParticipantIndex(ATTACKER)])
}

fn is_lost(standing: &Standing) -> bool {
    matches!(standing, Standing::Failed(NodeError::Lost { .. }))
}

fn describe(standing: &Standing) -> String {
    match standing {
        Standing::Waits => "has no share and waits".to_owned(),
        Standing::Staged(..) => "has a new share".to_owned(),
        Standing::Failed(error) => describe_error(error),
    }
}

/// What a refusal says, with the participants that it names.
pub(crate) fn describe_error(error: &NodeError) -> String {
    let NodeError::Rejected(rejection) = error else { return format!("ends the attempt: {error}") };
    let named: Vec<_> = rejection.culprits.iter().map(ToString::to_string).collect();
    if named.is_empty() {
        format!("refuses: {rejection}")
    } else {
        format!("names participant {}: {rejection}", named.join(", "))
    }
}

/// Whether a node refuses with this code, and what it does; `otherwise` if it does not refuse.
pub(crate) fn refused<T>(answer: &Result<T, NodeError>, code: Code, otherwise: &str) -> (bool, String) {
    match answer {
        Ok(_) => (false, otherwise.to_owned()),
        Err(error) => {
            let is_code = matches!(error, NodeError::Rejected(rejection) if rejection.code == code);
            (is_code, describe_error(error))
        }
    }
}

/// A copy of a message.
pub(crate) fn copy(message: &Message) -> Message {
    let Message { from, to, round, ref body } = *message;
    Message { from, to, round, body: Zeroizing::new(body.to_vec()) }
}

/// One attempt at a ceremony that the honest nodes have begun.
pub(crate) struct Attempt<'a> {
    pub(crate) deployment: &'a Deployment,
    pub(crate) operation: &'a Operation,
    pub(crate) attempt: u32,
    /// The id in every message of the attempt.
    pub(crate) ceremony: [u8; 32],
    /// The first messages of the honest nodes.
    pub(crate) sent: Vec<Envelope>,
}

impl<'a> Attempt<'a> {
    /// Begins the attempt at the honest nodes.
    pub(crate) async fn begin(
        deployment: &'a Deployment,
        operation: &'a Operation,
        attempt: u32,
        start: &CeremonyStart,
    ) -> Result<Self, Fault> {
        let mut sent = Vec::new();
        for (participant, node) in &deployment.nodes {
            let call = operation.call(*participant, EffectStep::Execute, attempt)?;
            match node.ceremony_start(&call, start).await? {
                CeremonyAnswer::Send(messages) => sent.extend(messages),
                CeremonyAnswer::Staged { .. } => return Err("a node staged a share at once".into()),
            }
        }
        let first = sent.first().ok_or("no honest node sent a message")?;
        Ok(Self { ceremony: first.header().ceremony, deployment, operation, attempt, sent })
    }

    /// Delivers messages to one honest node.
    pub(crate) async fn deliver(&self, to: u16, mail: &[Envelope]) -> Result<CeremonyAnswer, NodeError> {
        let unavailable = |detail| NodeError::Unavailable { detail, source: None };
        let call = self.operation.call(to, EffectStep::Execute, self.attempt);
        let call = call.map_err(|error| unavailable(error.to_string().into()))?;
        let node = self.deployment.nodes.get(&to).ok_or_else(|| unavailable("no such node".into()))?;
        node.ceremony_deliver(&call, mail).await
    }

    /// The message in an envelope of the attacker. For a broadcast that differs from recipient to recipient there are several.
    pub(crate) fn seal(&self, message: &Message) -> Result<Envelope, Fault> {
        let Message { from, to, round, ref body } = *message;
        let header = Header { ceremony: self.ceremony, from, to, round };
        Ok(relay::seal(&self.deployment.secret, &self.deployment.identities, header, body)?)
    }

    /// The messages that the attacker can read: broadcasts, and those to it.
    pub(crate) fn read(&self, sent: &[Envelope]) -> Result<Vec<Message>, Fault> {
        let Deployment { secret, identities, .. } = self.deployment;
        let mine = sent.iter().filter(|envelope| envelope.header().to.is_none_or(|to| to == ATTACKER));
        mine.map(|envelope| {
            let opened = relay::open(secret, identities, &self.ceremony, envelope)?;
            let Header { from, to, round, .. } = opened.header;
            Ok(Message { from, to, round, body: opened.body })
        })
        .collect()
    }

    /// Relays all messages until none is left, with those of the faces as `tamper` changes them.
    pub(crate) async fn run(mut self, mut faces: Vec<Face>, tamper: Tamper) -> Result<Ended, Fault> {
        let nodes = self.deployment.nodes.keys();
        let mut ended = Ended { honest: nodes.map(|node| (*node, Standing::Waits)).collect(), own: None };
        let (mut seen, mut sent) = (Vec::new(), std::mem::take(&mut self.sent));
        loop {
            let n_read = seen.len();
            seen.extend(self.read(&sent)?);
            let mut forged = self.outgoing(&mut faces, &seen, tamper)?;
            if sent.is_empty() && forged.is_empty() {
                return Ok(ended);
            }
            for face in &mut faces {
                for message in seen.iter().skip(n_read) {
                    face.handle(copy(message), &mut ended.own);
                }
            }
            let mut next = Vec::new();
            for (node, standing) in &mut ended.honest {
                let mut mail = mail(&sent, *node);
                mail.extend(forged.remove(node).unwrap_or_default());
                if mail.is_empty() || !matches!(standing, Standing::Waits) {
                    continue;
                }
                match self.deliver(*node, &mail).await {
                    Ok(CeremonyAnswer::Send(messages)) => next.extend(messages),
                    Ok(CeremonyAnswer::Staged { keys, receipt }) => {
                        *standing = Standing::Staged(keys, receipt)
                    }
                    Err(error) => *standing = Standing::Failed(error),
                }
            }
            sent = next;
        }
    }

    /// What the faces send now, by recipient.
    fn outgoing(
        &self,
        faces: &mut [Face],
        seen: &[Message],
        tamper: Tamper,
    ) -> Result<BTreeMap<u16, Vec<Envelope>>, Fault> {
        let mut mail: BTreeMap<u16, Vec<Envelope>> = BTreeMap::new();
        for face in faces {
            for message in std::mem::take(&mut face.outgoing) {
                for recipient in face.recipients.iter().filter(|it| message.to.is_none_or(|to| to == **it)) {
                    let view = View { profile: self.deployment.profile, seen };
                    for sent in tamper(&view, copy(&message)) {
                        mail.entry(*recipient).or_default().push(self.seal(&sent)?);
                    }
                }
            }
        }
        Ok(mail)
    }
}

impl Face {
    /// Passes a message to the session. What the attacker's own session refuses does not matter to it.
    fn handle(&mut self, message: Message, own: &mut Option<Output>) {
        match self.session.handle(message) {
            Ok(Progress::Wait) | Err(_) => {}
            Ok(Progress::Send(messages)) => self.outgoing.extend(messages),
            Ok(Progress::Done { send, output }) => {
                self.outgoing.extend(send);
                own.get_or_insert(*output);
            }
        }
    }
}
