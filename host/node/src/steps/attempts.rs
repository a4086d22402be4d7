//! Attempts at a ceremony: a node that completed one begins no other, and does not discard the operation, until another participant
//! has signed that the attempt cannot be completed.
//!
//! A node completes an attempt when it releases its signature share or stages its new share. From then on the other participants
//! could complete it too: a second package could lead to a second signature, and a share that is discarded or replaced here could be
//! promoted elsewhere. So the node asks for the receipt of one participant, without which the attempt cannot be completed, that it
//! has not completed the attempt and never will ([`ReceiptKind::AttemptDiscarded`]), or that it signed another package in it: two
//! replicas of the gateway can make two packages of one attempt, and a node signs one. Whether a node completed or discarded an
//! attempt is in its log: the two exclude each other, in the transaction that appends the entry.

use crate::admission::gate::target;
use crate::call::Call;
use crate::error::{Code, NodeError, NodeRejection, Stop, other_decision, other_transition, out_of_order};
use crate::node::Node;
use crate::settings::NodeConfig;
use crate::store::consumed::{UsedNonces, decode_package};
use crate::store::log::{self, LogState};
use crate::store::operation::{AdmittedRequest, View};
use crate::store::transaction::Transact;
use crate::store::vault;
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::intent::OperationType;
use gateway_domain::operation::EffectStep;
use gateway_domain::receipt::{AttemptReceipt, Chain, NodeReceipt, ReceiptKind, ReceiptStatement};
use gateway_domain::roster::ParticipantIndex;
use gateway_sqlite::Connection;
use std::collections::BTreeSet;

/// The highest attempt that a node discards. It bounds the entries of one operation in the log.
const DISCARDED_ATTEMPT_MAX: u32 = 1024;

/// The last attempt that this node completed.
pub(crate) struct Completed {
    /// The attempt.
    pub(crate) attempt: u32,
    /// The participants without any of which it cannot be completed: the signers of the package, or the receivers of new shares.
    participants: BTreeSet<ParticipantIndex>,
    /// The package that the node signed; `None` for new shares.
    package: Option<SignedPackage>,
}

/// A package that the node signed.
struct SignedPackage {
    hash: Hex32,
    digest: Hex32,
}

impl Completed {
    /// The last attempt of this operation that the node completed, if any. For new shares, only while the share is staged.
    pub(crate) async fn load(
        conn: &mut Connection,
        id: OperationId,
        decision: &AdmissionDecision,
    ) -> Result<Option<Self>, Stop> {
        if decision.operation_type != OperationType::Sign {
            let Some(attempt) = vault::staged_attempt(conn, id).await? else { return Ok(None) };
            let participants = target(decision)?.participants.as_set().clone();
            return Ok(Some(Self { attempt, participants, package: None }));
        }
        let latest = UsedNonces::load(conn, id, 0).await?.latest_attempt;
        let Some(used) = UsedNonces::load(conn, id, latest).await?.of_attempt else { return Ok(None) };
        let package = decode_package(&used.package)?;
        let participants = package.commitments.into_keys().map(ParticipantIndex).collect();
        let package = Some(SignedPackage { hash: used.package_hash, digest: decision.request_digest });
        Ok(Some(Self { attempt: latest, participants, package }))
    }

    /// Checks that one of these receipts is another participant's, that it will not complete the attempt or discarded the operation.
    pub(crate) fn check_discarded(
        &self,
        config: &NodeConfig,
        chain: &Chain,
        receipts: &[AttemptReceipt],
    ) -> Result<(), NodeError> {
        let kind = |of: &AttemptReceipt| match (&self.package, of.package_hash) {
            (Some(own), Some(other)) if own.hash != other => Some(of.kind(self.attempt, own.digest)),
            (Some(_) | None, None) => Some(ReceiptKind::AttemptDiscarded { attempt: self.attempt }),
            (Some(_) | None, Some(_)) => None,
        };
        if is_signed_by_another(config, chain, &self.participants, receipts, kind)?
            || is_discarded_by(config, chain, &self.participants, receipts)?
        {
            return Ok(());
        }
        let detail = format!(
            "the node completed attempt {}, and no participant of it has signed that it will not",
            self.attempt
        );
        Err(NodeRejection::new(Code::AttemptNotDiscarded, detail).into())
    }
}

/// Whether one of these receipts is that of another one of the participants, that it discarded the operation.
pub(crate) fn is_discarded_by(
    config: &NodeConfig,
    chain: &Chain,
    participants: &BTreeSet<ParticipantIndex>,
    receipts: &[AttemptReceipt],
) -> Result<bool, NodeError> {
    is_signed_by_another(config, chain, participants, receipts, |_| Some(ReceiptKind::Discarded))
}

/// Whether one of these receipts is that of another one of the participants, and of its kind.
fn is_signed_by_another(
    config: &NodeConfig,
    chain: &Chain,
    participants: &BTreeSet<ParticipantIndex>,
    receipts: &[AttemptReceipt],
    kind: impl Fn(&AttemptReceipt) -> Option<ReceiptKind>,
) -> Result<bool, NodeError> {
    for (of, kind) in receipts.iter().filter_map(|of| Some((of, kind(of)?))) {
        let participant = of.receipt.participant;
        if participant == chain.participant || !participants.contains(&participant) {
            continue;
        }
        let statement = Chain { participant, ..*chain }.statement(&kind)?;
        let pinned = config.peers.pinned(participant);
        if pinned.is_some_and(|pinned| of.receipt.verify(&statement, &pinned.signing_key()).is_ok()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Checks that this node has not discarded the attempt.
pub(crate) async fn check_open(conn: &mut Connection, chain: &Chain, attempt: u32) -> Result<(), Stop> {
    if log::has_entry(conn, chain.operation_id, chain.after_attempt_discard(attempt)?).await? {
        return Err(NodeRejection::new(Code::AttemptSuperseded, "the node has discarded the attempt").into());
    }
    Ok(())
}

impl Node {
    /// Discards an attempt that this node has not completed: it will never release a signature share or stage a share in it. The
    /// call is that of the attempt. Possible after the node discarded the operation too, since another node may need the receipt.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::StepOutOfOrder`] after the node completed the attempt, or if the operation is not admitted
    /// here; [`Code::DecidedBeforeReadmission`] or [`Code::AdmissionConflict`]; [`NodeError::Unavailable`].
    pub async fn discard_attempt(&self, call: &Call) -> Result<NodeReceipt, NodeError> {
        self.check_running()?;
        let (id, attempt) = (call.effect.operation, call.effect.attempt);
        if attempt > DISCARDED_ATTEMPT_MAX {
            let detail = format!("a node discards attempts up to {DISCARDED_ATTEMPT_MAX}");
            return Err(out_of_order(detail).into());
        }
        let chain = self.chain(call);
        let statement = chain.statement(&ReceiptKind::AttemptDiscarded { attempt })?;
        let log_index =
            self.write(DiscardAttempt { call: *call, chain, statement: statement.clone() }).await?;
        // The nonces and the secrets of the attempt are of no use any more.
        self.sessions.close_attempt(id, attempt);
        self.ceremonies.close_attempt(id, attempt);
        self.issue_receipt(&statement, log_index)
    }
}

/// Checks that the node has not completed the attempt, and appends the entry that it discarded it.
struct DiscardAttempt {
    call: Call,
    chain: Chain,
    /// The statement of the receipt.
    statement: ReceiptStatement,
}

impl Transact for DiscardAttempt {
    type Output = u64;

    async fn run(&self, conn: &mut Connection, log: &mut LogState) -> Result<u64, Stop> {
        let View { row, .. } = View::load(conn, self.call.effect, None).await?;
        let row = row.ok_or_else(|| out_of_order("the operation is not admitted on this node"))?;
        if row.admission_hash != self.call.admission_hash {
            return Err(other_decision().into());
        }
        if self.call.effect.step != EffectStep::Execute || self.call.previous != self.chain.after_receipt()? {
            return Err(other_transition().into());
        }
        if let Some(log_index) = log::find_receipt(conn, &self.statement).await? {
            return Ok(log_index);
        }
        let completed = self.chain.after_execute(self.call.effect.attempt)?;
        if log::has_entry(conn, self.chain.operation_id, completed).await? {
            return Err(out_of_order("the node completed the attempt").into());
        }
        if let Some(AdmittedRequest { request, decision }) = &row.statement {
            // A rollback may have lost the record that the node completed the attempt.
            log.check_decided_since(request, decision)?;
        }
        let log_index = log.size();
        let entry = log.append_receipt(&self.statement, None)?;
        log::insert_entry(conn, Some(&self.statement), &entry).await?;
        Ok(log_index)
    }
}
