//! Making shares: this node's side of the ceremony, from its first message to a staged share.
//!
//! Key generation, redistribution and repair take the same path; `part` has the differences. The state of a ceremony is in
//! memory. That an attempt began is on disk, so that no attempt begins twice: a ceremony id must never be used again. After a
//! restart an attempt has either staged its share or is lost.

pub(crate) mod contribution;
pub(crate) mod mail;
pub(crate) mod part;

use crate::admission::gate;
use crate::admission::gate::{is_same_key, target};
use crate::admission::verify::check_named_key;
use crate::call::{Call, CeremonyStart, ceremony_id};
use crate::ceremony::part::Part;
use crate::error::{NodeError, Stop, attempt_superseded, out_of_order};
use crate::memory::ceremonies::{Ceremony, Received};
use crate::node::Node;
use crate::steps::attempts::{Completed, check_open};
use crate::store::log::{self, LogState};
use crate::store::operation::{self, AdmittedRequest, View};
use crate::store::row_hash;
use crate::store::sealing::Sealing;
use crate::store::transaction::Transact;
use crate::store::vault::{self, NewShare};
use gateway_domain::admission::Target;
use gateway_domain::ids::{Hex32, KeyId, OperationId};
use gateway_domain::intent::OperationType;
use gateway_domain::key::epoch_root;
use gateway_domain::operation::{EffectId, EffectStep};
use gateway_domain::receipt::{Chain, NodeReceipt, ReceiptKind, ReceiptStatement};
use gateway_seal::relay::{Envelope, Opened};
use gateway_sqlite::Connection;
use gateway_threshold::{KeyShare, Message, Output, Progress, PublicKeys, Session};

/// A node's answer in a ceremony.
#[derive(Debug)]
pub enum CeremonyAnswer {
    /// Messages for the other participants; empty while this node waits for theirs.
    Send(Vec<Envelope>),
    /// The node has finished: the step is durable, with its share if it gets one.
    Staged {
        /// The public keys of the new generation.
        keys: Box<PublicKeys>,
        /// The node's receipt for the step.
        receipt: NodeReceipt,
    },
}

const CEREMONY_LOST: NodeError = NodeError::lost("the node has no state of this attempt's ceremony");

impl Node {
    /// Begins this attempt. If the attempt has staged a share already, returns that answer again.
    ///
    /// # Errors
    /// [`NodeError::Lost`] when the attempt began before and has not staged a share; [`NodeError::Rejected`] with
    /// [`Code::PackageRefused`](crate::Code::PackageRefused) when `start` does not match what was admitted, and
    /// [`Code::AttemptNotDiscarded`](crate::Code::AttemptNotDiscarded) when the node staged its share in an earlier attempt and
    /// `start` has no receipt of another receiver that it discarded that attempt; the other errors of
    /// [`Self::signing_commit`].
    pub async fn ceremony_start(
        &self,
        call: &Call,
        start: &CeremonyStart,
    ) -> Result<CeremonyAnswer, NodeError> {
        self.check_running()?;
        let (id, attempt) = (call.effect.operation, call.effect.attempt);
        let mut conn = self.database.readers().at_hand().await?;
        let view = View::load(&mut conn, call.effect, None).await?;
        let admitted = gate::find_admitted(view, call, EffectStep::Execute)?;
        let target = target(&admitted.statement.decision)?;
        if let Some(answer) = self.find_staged(&mut conn, call, target).await? {
            return Ok(answer);
        }
        let (previous, steps) =
            (self.chain(call).after_receipt()?, [EffectStep::PolicyReceipt, EffectStep::Execute]);
        gate::check_order(call, &admitted, previous, &steps)?;
        self.verify_again(&mut conn, &admitted).await?;
        self.check_decided_since(&admitted.statement.request, &admitted.statement.decision)?;
        let completed = Completed::load(&mut conn, id, &admitted.statement.decision).await?;
        if let Some(completed) = &completed {
            completed.check_discarded(&self.config, &self.chain(call), &start.discarded)?;
        }
        self.ceremonies.check_limit(id, self.now())?;
        let ceremony_id = ceremony_id(call, start)?;
        let part = self.start_part(&mut conn, ceremony_id, &admitted, start).await?;
        drop(conn);
        let completed_attempt = completed.map(|completed| completed.attempt);
        let replaced = admitted.statement.decision.epoch_root;
        let key_id = target.key_id;
        self.write(BeginAttempt { chain: self.chain(call), key_id, replaced, attempt, completed_attempt })
            .await?;
        match part {
            Part::Runs(session, protocol, messages) => {
                let received = Received::new(*protocol, &messages);
                let session = tokio::sync::Mutex::new(Some((session, received)));
                let mail = self.seal_mail(ceremony_id, messages)?;
                let ceremony = Ceremony { attempt, id: ceremony_id, opened_at: self.now(), session };
                self.ceremonies.open(id, ceremony);
                Ok(CeremonyAnswer::Send(mail))
            }
            Part::Keeps(share, keys) => {
                self.stage(call, &admitted.statement, Some(&share), (*keys).clone()).await
            }
        }
    }

    /// Handles messages of other participants, which a relay delivers.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with `CeremonyMisbehaviour` and the culprits, with `RelayMisbehaviour`, or because the operation
    /// is not admitted here or was discarded; [`NodeError::Lost`] when there is no such ceremony, or it failed and no
    /// participant is to blame; [`NodeError::Unavailable`] when the store failed.
    pub async fn ceremony_deliver(
        &self,
        call: &Call,
        mail: &[Envelope],
    ) -> Result<CeremonyAnswer, NodeError> {
        self.check_running()?;
        let (id, attempt) = (call.effect.operation, call.effect.attempt);
        let mut conn = self.database.readers().at_hand().await?;
        let view = View::load(&mut conn, call.effect, None).await?;
        let statement = gate::find_admitted(view, call, EffectStep::Execute)?.statement;
        let target = target(&statement.decision)?;
        if let Some(answer) = self.find_staged(&mut conn, call, target).await? {
            return Ok(answer);
        }
        drop(conn);
        #[cfg(feature = "testing")]
        if let Some(rejection) = self.lies.accusation(self, mail) {
            return Err(rejection.into());
        }
        let ceremony = self.ceremonies.find(id, attempt).ok_or(CEREMONY_LOST)?;
        let mut slot = ceremony.session.lock().await;
        // A ceremony that cannot continue is removed: it would count towards the limit until its timeout.
        let opened = self.open_mail(&ceremony.id, mail);
        let opened = opened.inspect_err(|_| self.ceremonies.close(id))?;
        let session = slot.take().ok_or(CEREMONY_LOST)?;
        // With 64 participants this computes for seconds, which must not block an async worker thread.
        let handled = tokio::task::spawn_blocking(move || handle(session, opened)).await;
        let handled = handled.unwrap_or(Err(CEREMONY_LOST));
        let (session, handled) = handled.inspect_err(|_| self.ceremonies.close(id))?;
        match handled {
            Handled::Send(messages) => {
                let mail = self.seal_mail(ceremony.id, messages)?;
                *slot = Some(session);
                Ok(CeremonyAnswer::Send(mail))
            }
            Handled::Done(output) => {
                let Output { share, keys, .. } = *output;
                let share = self.share_to_stage(&statement, share, &keys).await?;
                let staged = self.stage(call, &statement, share.as_ref(), keys).await?;
                self.ceremonies.close(id);
                Ok(staged)
            }
        }
    }

    /// The share that this node will hold: the protocol's output, or its present share if it helped to repair another's.
    /// `None` if it leaves the roster.
    async fn share_to_stage(
        &self,
        statement: &AdmittedRequest,
        output: Option<KeyShare>,
        keys: &PublicKeys,
    ) -> Result<Option<KeyShare>, NodeError> {
        let decision = &statement.decision;
        if output.is_some() || decision.operation_type != OperationType::Recover {
            return Ok(output);
        }
        let mut conn = self.database.readers().at_hand().await?;
        Ok(Some(vault::load_share(&mut conn, &self.sealing, decision.key_id, &decision.epoch, keys).await?))
    }

    /// Stages the share and records the step. A node that leaves the roster only records the step. New shares of the same key must be of
    /// the one that approvers signed.
    async fn stage(
        &self,
        call: &Call,
        statement: &AdmittedRequest,
        share: Option<&KeyShare>,
        keys: PublicKeys,
    ) -> Result<CeremonyAnswer, NodeError> {
        let AdmittedRequest { request, decision } = statement;
        if is_same_key(decision) {
            check_named_key(&request.intent, &keys)?;
        }
        let (target, replaced) = (target(decision)?, decision.epoch_root);
        let public_keys = keys.to_bytes();
        let root = epoch_root(target.key_id, &target.epoch, &hex::encode(&public_keys))?;
        let new_share = share.map(|share| NewShare {
            key_id: target.key_id,
            epoch: target.epoch.clone(),
            operation_id: call.effect.operation,
            attempt: call.effect.attempt,
            made_at: self.now(),
            root,
            public_keys,
            secret: share.to_secret_bytes(),
        });
        let kind = ReceiptKind::Staged { attempt: call.effect.attempt, epoch_root: root };
        let statement = self.chain(call).statement(&kind)?;
        let (effect, chain, sealing) = (call.effect, self.chain(call), self.sealing.clone());
        let stage = StageShare { effect, chain, statement, sealing, replaced, new_share };
        let (statement, log_index) = self.write(stage).await?;
        let receipt = self.issue_receipt(&statement, log_index)?;
        Ok(CeremonyAnswer::Staged { keys: Box::new(keys), receipt })
    }

    /// The answer again, if this attempt has staged its share.
    async fn find_staged(
        &self,
        conn: &mut Connection,
        call: &Call,
        target: &Target,
    ) -> Result<Option<CeremonyAnswer>, NodeError> {
        let (id, attempt) = (call.effect.operation, call.effect.attempt);
        let Some(staged) = vault::load_staged(conn, id, attempt).await? else { return Ok(None) };
        let keys = Box::new(staged.decode(target.key_id)?);
        let statement =
            self.chain(call).statement(&ReceiptKind::Staged { attempt, epoch_root: staged.root })?;
        let receipt = self.issue_receipt(&statement, log::receipt_index(conn, &statement).await?)?;
        Ok(Some(CeremonyAnswer::Staged { keys, receipt }))
    }
}

/// The session's response to a batch of messages.
enum Handled {
    Send(Vec<Message>),
    Done(Box<Output>),
}

/// Passes the messages to the session. An error drops the session, which wipes its secrets.
fn handle(
    (mut session, mut received): (Box<Session>, Received),
    opened: Vec<Opened>,
) -> Result<((Box<Session>, Received), Handled), NodeError> {
    let mut send = Vec::new();
    for opened in opened {
        let handled = session.handle(received.add(opened));
        match handled.map_err(|error| NodeError::ceremony(&error, received.complaint(&error)))? {
            Progress::Wait => {}
            Progress::Send(messages) => send.extend(messages),
            Progress::Done { send: last, output } if send.is_empty() && last.is_empty() => {
                return Ok(((session, received), Handled::Done(output)));
            }
            // An answer has messages or a result. Both fall together only if the relay delivers messages of different rounds
            // together, which loses the attempt.
            Progress::Done { .. } => return Err(CEREMONY_LOST),
        }
    }
    Ok(((session, received), Handled::Send(send)))
}

/// Records that an attempt has begun. Fails if it, or a later one, began before, or if the node discarded it.
struct BeginAttempt {
    chain: Chain,
    /// The key of the new shares.
    key_id: KeyId,
    /// Root of the generation that they replace.
    replaced: Hex32,
    attempt: u32,
    /// The attempt whose share is staged. Another participant has signed that it discarded that attempt.
    completed_attempt: Option<u32>,
}

impl Transact for BeginAttempt {
    type Output = ();

    async fn run(&self, conn: &mut Connection, _log: &mut LogState) -> Result<(), Stop> {
        let id = self.chain.operation_id;
        check_open(conn, &self.chain, self.attempt).await?;
        vault::check_staged(conn, self.key_id, id, self.replaced).await?;
        if vault::staged_attempt(conn, id).await? != self.completed_attempt {
            return Err(attempt_superseded().into());
        }
        let latest = latest_attempt(conn, id).await?;
        match latest {
            Some(latest) if latest > self.attempt => return Err(attempt_superseded().into()),
            Some(latest) if latest == self.attempt => return Err(CEREMONY_LOST.into()),
            Some(_) | None => {}
        }
        let id = id.to_string();
        let row_hash = row_hash::ceremony(&id, self.attempt)?.to_string();
        let sql = "INSERT OR REPLACE INTO ceremony (operation_id, attempt, row_hash) VALUES (?1, ?2, ?3)";
        Ok(conn.run(sql, &[id.into(), self.attempt.into(), row_hash.into()]).await?)
    }
}

/// The latest attempt of the operation that began here.
async fn latest_attempt(conn: &mut Connection, id: OperationId) -> Result<Option<u32>, Stop> {
    let sql = "SELECT attempt FROM ceremony WHERE operation_id = ?1";
    Ok(conn.row(sql, &[id.to_string().into()]).await?.map(|row| row.get("attempt")).transpose()?)
}

/// Stages the share that the ceremony produced, and records the step. Fails if a later attempt began, or if the node discarded
/// this one.
struct StageShare {
    effect: EffectId,
    chain: Chain,
    /// The statement of the receipt.
    statement: ReceiptStatement,
    sealing: Sealing,
    /// As in [`BeginAttempt`].
    replaced: Hex32,
    /// `None` for a node that leaves the roster.
    new_share: Option<NewShare>,
}

impl Transact for StageShare {
    type Output = (ReceiptStatement, u64);

    async fn run(&self, conn: &mut Connection, log: &mut LogState) -> Result<Self::Output, Stop> {
        let last_step = View::load(conn, self.effect, None).await?.row.map(|row| row.last_step);
        if !matches!(last_step, Some(EffectStep::PolicyReceipt | EffectStep::Execute)) {
            return Err(out_of_order("the operation made another step during the ceremony").into());
        }
        if latest_attempt(conn, self.effect.operation).await? != Some(self.effect.attempt) {
            return Err(attempt_superseded().into());
        }
        check_open(conn, &self.chain, self.effect.attempt).await?;
        if let Some(new_share) = &self.new_share {
            vault::check_staged(conn, new_share.key_id, self.effect.operation, self.replaced).await?;
            vault::stage(conn, &self.sealing, new_share).await?;
        }
        let log_index = log.size();
        let entry = log.append_receipt(&self.statement, None)?;
        operation::advance(conn, self.effect.step, &self.statement, &entry).await?;
        Ok((self.statement.clone(), log_index))
    }
}
