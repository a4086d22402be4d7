//! Attacks on the protocols that make shares: key generation, refresh, reshare and recovery.

use super::attacker::{Attempt, Ending, Face, Tamper, describe_error, refused};
use super::deployment::{ATTACKER, Deployment, HONEST, KEY, Stolen};
use super::operation::{Change, Operation, PARTICIPANTS, THRESHOLD};
use super::report::Report;
use super::tricks::{
    COMMITMENTS, ECHO, NAMED, PROOFS, REPEATED, SECRETS, Trick, UNCHANGED, edit, flip, rebound,
};
use gateway_domain::operation::EffectStep;
use gateway_domain::receipt::{AttemptReceipt, NodeReceipt, ReceiptKind};
use gateway_domain::roster::ParticipantIndex;
use gateway_node::{CeremonyAnswer, CeremonyStart, Code, Discard, Envelope, NodeError, public_case};
use gateway_service::process::Fault;
use gateway_threshold::{KeyShare, Message, PublicKeys, Session};
use gateway_threshold::{keygen, redistribute, repair};
use rand_core::OsRng;
use std::collections::BTreeSet;

/// A protocol that makes shares, as the attacker runs it.
#[derive(Clone, Copy)]
enum Protocol<'a> {
    KeyGeneration,
    Change(Change, &'a Stolen),
}

fn everyone() -> BTreeSet<u16> {
    (0..PARTICIPANTS).collect()
}

impl Protocol<'_> {
    fn name(self) -> &'static str {
        match self {
            Self::KeyGeneration => "key generation",
            Self::Change(Change::Refresh, _) => "refresh",
            Self::Change(Change::Reshare, _) => "reshare",
            Self::Change(Change::Recover, _) => "recovery",
        }
    }

    /// The parameters of the honest nodes.
    fn start(self) -> CeremonyStart {
        let dealers = match self {
            Self::KeyGeneration | Self::Change(Change::Recover, _) => BTreeSet::new(),
            Self::Change(Change::Refresh | Change::Reshare, _) => {
                everyone().into_iter().map(ParticipantIndex).collect()
            }
        };
        let package = match self {
            Self::KeyGeneration => vec![],
            Self::Change(_, key) => key.keys.to_bytes(),
        };
        CeremonyStart { dealers, package, discarded: vec![] }
    }

    /// A session of the attacker. A contribution to a recovery is always the same: a session with another one is of another case, and
    /// its messages have to be rebound.
    fn session(
        self,
        attempt: &Attempt<'_>,
        has_other_contribution: bool,
    ) -> Result<(Session, Vec<Message>), Fault> {
        let (me, profile, ceremony_id) = (ATTACKER, attempt.deployment.profile, attempt.ceremony);
        Ok(match self {
            Self::KeyGeneration => {
                let (roster, threshold) = (everyone(), THRESHOLD);
                keygen::start(keygen::Params { profile, me, roster, threshold, ceremony_id }, &mut OsRng)?
            }
            Self::Change(change @ (Change::Refresh | Change::Reshare), Stolen { share, keys, .. }) => {
                let (keys, dealers, roster) = (keys.clone(), everyone(), everyone());
                let threshold = change.threshold();
                let params = redistribute::Params { keys, me, dealers, roster, threshold, ceremony_id };
                redistribute::start(params, Some(share), &mut OsRng)?
            }
            Self::Change(Change::Recover, Stolen { share, keys, .. }) => {
                let case = attempt.operation.recovery_case().ok_or("the operation is no recovery")?;
                let mut case = public_case(&case, keys.clone())?;
                let mut admitted = attempt.operation.admitted_contributions();
                if has_other_contribution {
                    (case.reference, admitted) = ([0; 32], repair::Admitted::default());
                }
                let params = repair::Params { case, admitted, me, ceremony_id };
                repair::start(params, Some(share), &mut OsRng)?
            }
        })
    }

    /// A face of the attacker for these honest nodes.
    fn face(self, attempt: &Attempt<'_>, recipients: &'static [u16]) -> Result<Face, Fault> {
        let (session, outgoing) = self.session(attempt, false)?;
        Ok(Face { recipients, session, outgoing })
    }

    /// A face with other commitments than [`Self::face`].
    fn other_face(self, attempt: &Attempt<'_>, recipients: &'static [u16]) -> Result<Face, Fault> {
        let (session, outgoing) = self.session(attempt, true)?;
        Ok(Face { recipients, session, outgoing })
    }
}

/// The attacks on one operation, each in an attempt of its own.
struct Attacks<'a> {
    deployment: &'a Deployment,
    operation: &'a Operation,
    protocol: Protocol<'a>,
    n_attempts: u32,
    /// The attacker's receipts that it discarded the attempts before: some tricks let the honest nodes complete theirs.
    discarded: Vec<AttemptReceipt>,
}

impl<'a> Attacks<'a> {
    fn new(deployment: &'a Deployment, operation: &'a Operation, protocol: Protocol<'a>) -> Self {
        Self { deployment, operation, protocol, n_attempts: 0, discarded: vec![] }
    }

    async fn begin(&mut self) -> Result<Attempt<'a>, Fault> {
        if self.n_attempts > 0 {
            let kind = ReceiptKind::AttemptDiscarded { attempt: self.n_attempts };
            self.discarded.push(self.deployment.receipt(self.operation, &kind)?.into());
        }
        self.n_attempts += 1;
        let start = CeremonyStart { discarded: self.discarded.clone(), ..self.protocol.start() };
        Attempt::begin(self.deployment, self.operation, self.n_attempts, &start).await
    }

    fn add(&self, report: &mut Report, attack: &'static str, outcome: (bool, String)) {
        report.add(self.deployment.profile, self.protocol.name(), attack, outcome);
    }

    async fn play(&mut self, report: &mut Report, (attack, tamper, ending): Trick) -> Result<(), Fault> {
        let attempt = self.begin().await?;
        let face = self.protocol.face(&attempt, &HONEST)?;
        let ended = attempt.run(vec![face], tamper).await?;
        self.add(report, attack, ended.judge(ending));
        Ok(())
    }

    /// The attacker shows each honest node another polynomial, with matching secret values.
    async fn equivocate(&mut self, report: &mut Report) -> Result<(), Fault> {
        let attempt = self.begin().await?;
        let faces = vec![self.protocol.face(&attempt, &[0])?, self.protocol.other_face(&attempt, &[1])?];
        let ended = attempt.run(faces, rebound).await?;
        let ending = match self.protocol {
            // One of the two contributions is not the admitted one.
            Protocol::Change(Change::Recover, _) => Ending::Named(&[1]),
            Protocol::KeyGeneration | Protocol::Change(Change::Refresh | Change::Reshare, _) => {
                Ending::Unattributed(&HONEST)
            }
        };
        self.add(report, "other commitments for each node", ended.judge(ending));
        Ok(())
    }

    /// The attacker splits its share otherwise than it stated before the recovery was approved; everything else fits.
    async fn change_contribution(&mut self, report: &mut Report) -> Result<(), Fault> {
        let attempt = self.begin().await?;
        let face = self.protocol.other_face(&attempt, &HONEST)?;
        let ended = attempt.run(vec![face], rebound).await?;
        self.add(report, "another contribution than the admitted one", ended.judge(NAMED));
        Ok(())
    }

    /// The attacker shares the secret of another key, with matching commitments.
    async fn share_another_secret(&mut self, report: &mut Report, other: Protocol<'_>) -> Result<(), Fault> {
        let attempt = self.begin().await?;
        let face = other.other_face(&attempt, &HONEST)?;
        let ended = attempt.run(vec![face], rebound).await?;
        self.add(report, "the share of another key", ended.judge(NAMED));
        Ok(())
    }

    /// Messages that the attacker relays otherwise than they were sent.
    async fn relay_falsely(&mut self, report: &mut Report) -> Result<(), Fault> {
        let from = |sent: &[Envelope], node: u16| -> Vec<_> {
            sent.iter().filter(|it| it.header().from == node).cloned().collect()
        };
        let earlier = self.begin().await?.sent;
        let attempt = self.begin().await?;
        let outcome = relay_is_blamed(&attempt.deliver(0, &from(&earlier, 1)).await);
        self.add(report, "messages of an earlier attempt", outcome);
        let outcome = relay_is_blamed(&attempt.deliver(1, &renamed(&from(&attempt.sent, 0))?).await);
        self.add(report, "a message in the name of another", outcome);
        // Both nodes answer with private messages, some of them to the attacker.
        let attempt = self.begin().await?;
        let own = self.protocol.face(&attempt, &HONEST)?.outgoing;
        let own = own.iter().map(|message| attempt.seal(message)).collect::<Result<Vec<_>, _>>()?;
        let broadcasts = |node: u16| {
            let own = own.iter().filter(|it| it.header().to.is_none()).cloned();
            from(&attempt.sent, node).into_iter().chain(own).collect::<Vec<_>>()
        };
        attempt.deliver(0, &broadcasts(1)).await?;
        let answer = attempt.deliver(1, &broadcasts(0)).await?;
        let CeremonyAnswer::Send(sent) = answer else { return Err("a node staged a share too early".into()) };
        let to_attacker: Vec<_> = sent.into_iter().filter(|it| it.header().to == Some(ATTACKER)).collect();
        let outcome = relay_is_blamed(&attempt.deliver(0, &to_attacker).await);
        self.add(report, "a message sealed for another node", outcome);
        Ok(())
    }

    /// Without a trick all participants get the same key: no attack has left anything behind. Returns the attacker's share.
    async fn complete(&mut self, report: &mut Report) -> Result<Completed, Fault> {
        let attempt = self.begin().await?;
        let face = self.protocol.face(&attempt, &HONEST)?;
        let mut ended = attempt.run(vec![face], UNCHANGED).await?;
        self.add(report, "an honest run after the attacks", ended.judge(Ending::Completes));
        let receipts = ended.receipts();
        let own = ended.own.take().ok_or("the attacker has no result without a trick")?;
        Ok(Completed { attempt: self.n_attempts, share: own.share, keys: own.keys, receipts })
    }
}

/// A ceremony that completed.
struct Completed {
    attempt: u32,
    /// The attacker's share, unless it was a helper.
    share: Option<KeyShare>,
    keys: PublicKeys,
    receipts: Vec<NodeReceipt>,
}

/// Whether the node blames the relay, and no participant.
fn relay_is_blamed(answer: &Result<CeremonyAnswer, NodeError>) -> (bool, String) {
    match answer {
        Err(error) => {
            let is_blamed = matches!(error, NodeError::Rejected(rejection)
                if rejection.code == Code::RelayMisbehaviour && rejection.culprits.is_empty());
            (is_blamed, format!("the node {}", describe_error(error)))
        }
        Ok(_) => (false, "the node accepts it".to_owned()),
    }
}

/// The envelopes with the attacker as their sender.
fn renamed(sent: &[Envelope]) -> Result<Vec<Envelope>, Fault> {
    let rename = |envelope: &Envelope| {
        let mut value = serde_json::to_value(envelope)?;
        if let Some(from) = value.pointer_mut("/header/from") {
            *from = ATTACKER.into();
        }
        Ok(serde_json::from_value(value)?)
    };
    sent.iter().map(rename).collect()
}

/// Attacks a key generation, and then generates the key.
pub(crate) async fn attack_key_generation(
    deployment: &mut Deployment,
    report: &mut Report,
) -> Result<(), Fault> {
    let operation = deployment.creation(KEY).await?;
    let mut attacks = Attacks::new(deployment, &operation, Protocol::KeyGeneration);
    for trick in PROOFS.into_iter().chain(COMMITMENTS).chain(SECRETS).chain(ECHO) {
        attacks.play(report, trick).await?;
    }
    attacks.equivocate(report).await?;
    attacks.relay_falsely(report).await?;
    attacks.play(report, REPEATED).await?;
    let Completed { attempt, share, keys, receipts } = attacks.complete(report).await?;
    let share = share.ok_or("the attacker has no share")?;
    deployment.take_key(&operation, attempt, (share, keys), receipts).await
}

/// Attacks each change of the key. None is promoted, so that each begins with the same key.
pub(crate) async fn attack_changes(deployment: &Deployment, report: &mut Report) -> Result<(), Fault> {
    let key = deployment.key()?;
    let creation = deployment.creation("another").await?;
    let made =
        Attacks::new(deployment, &creation, Protocol::KeyGeneration).complete(&mut Report::default()).await?;
    let share = made.share.ok_or("the attacker has no share")?;
    let foreign = Stolen { share, keys: made.keys, epoch: key.epoch.clone() };
    for change in [Change::Refresh, Change::Reshare, Change::Recover] {
        let operation = deployment.change(change).await?;
        let protocol = Protocol::Change(change, key);
        start_from_another_root(deployment, &operation, protocol, &foreign, report).await?;
        let mut attacks = Attacks::new(deployment, &operation, protocol);
        for trick in PROOFS.into_iter().chain(COMMITMENTS).chain(SECRETS).chain(ECHO) {
            attacks.play(report, trick).await?;
        }
        if matches!(change, Change::Recover) {
            let tamper: Tamper = |view, it| edit(it, 4, |body| flip(view, body));
            let trick = ("a wrong sum for the recovering node", tamper, Ending::NamedByLast(1));
            attacks.play(report, trick).await?;
            attacks.change_contribution(report).await?;
        }
        attacks.equivocate(report).await?;
        attacks.share_another_secret(report, Protocol::Change(change, &foreign)).await?;
        attacks.play(report, REPEATED).await?;
        let Completed { attempt, .. } = attacks.complete(report).await?;
        discard_staged_shares(deployment, &operation, protocol, attempt, report).await?;
    }
    Ok(())
}

/// The honest nodes discard their staged shares only with a receipt of the attacker that it has not staged its own. It is false here, and
/// leaves the key as it was.
async fn discard_staged_shares(
    deployment: &Deployment,
    operation: &Operation,
    protocol: Protocol<'_>,
    attempt: u32,
    report: &mut Report,
) -> Result<(), Fault> {
    let decision = operation.request.envelope.clone();
    let alone = Discard { decision, discarded_attempts: vec![] };
    let receipt = deployment.receipt(operation, &ReceiptKind::AttemptDiscarded { attempt })?;
    let with_receipt = Discard { discarded_attempts: vec![receipt.into()], ..alone.clone() };
    let mut answers = Vec::new();
    for (participant, node) in &deployment.nodes {
        let call = operation.call(*participant, EffectStep::Discard, 1)?;
        answers.push((*participant, node.discard(&call, &alone).await));
        node.discard(&call, &with_receipt).await?;
    }
    let attack = "a discard of shares that all nodes have staged";
    let outcome = all_refuse(&answers, Code::AttemptNotDiscarded, "discards it");
    report.add(deployment.profile, protocol.name(), attack, outcome);
    Ok(())
}

/// Whether every node refuses with this code, and what each did; `otherwise` is what one does that does not refuse.
fn all_refuse<T>(answers: &[(u16, Result<T, NodeError>)], code: Code, otherwise: &str) -> (bool, String) {
    let outcomes = answers.iter().map(|(node, answer)| (node, refused(answer, code, otherwise)));
    let outcomes: Vec<_> = outcomes.collect();
    let described = outcomes.iter().map(|(node, (_, text))| format!("node {node} {text}"));
    (outcomes.iter().all(|(_, (is_ok, _))| *is_ok), described.collect::<Vec<_>>().join("; "))
}

/// The coordinator begins the change with the public keys of another key than the admitted one.
async fn start_from_another_root(
    deployment: &Deployment,
    operation: &Operation,
    protocol: Protocol<'_>,
    foreign: &Stolen,
    report: &mut Report,
) -> Result<(), Fault> {
    let start = CeremonyStart { package: foreign.keys.to_bytes(), ..protocol.start() };
    let mut answers = Vec::new();
    for (participant, node) in &deployment.nodes {
        let call = operation.call(*participant, EffectStep::Execute, 1)?;
        answers.push((*participant, node.ceremony_start(&call, &start).await));
    }
    let outcome = all_refuse(&answers, Code::PackageRefused, "begins");
    report.add(deployment.profile, protocol.name(), "the root of another key", outcome);
    Ok(())
}
