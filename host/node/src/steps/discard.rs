//! The end of an operation that does not go on: the node discards it, with what it holds for it.

use crate::call::{Call, Discard, content, unverified_decision};
use crate::error::{
    Code, NodeError, NodeRejection, Stop, cannot_follow, decided_before, other_decision, other_transition,
};
use crate::limits::MISSED_DISCARDS_MAX;
use crate::node::Node;
use crate::steps::attempts::{self, Completed};
use crate::steps::{Body, Step};
use crate::store::log::LogState;
use crate::store::operation::{self, AdmittedRequest, View};
use crate::store::spending;
use crate::store::vault::{self, Generation};
use gateway_domain::admission::{self, AdmissionDecision, admission_hash};
use gateway_domain::intent::OperationType;
use gateway_domain::operation::EffectStep;
use gateway_domain::receipt::NodeReceipt;
use gateway_domain::time::EpochMs;
use gateway_sqlite::Connection;

impl Node {
    /// Discards the operation and its staged share permanently: from now on the node refuses every step of it. An operation
    /// that this node missed can be discarded too, with the decision on it.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::AttemptNotDiscarded`] after the node released a signature share or staged its share, without
    /// the receipt of another participant that it discarded that attempt, [`Code::StepOutOfOrder`] after the node promoted its
    /// generation or published, [`Code::AdmissionRefused`], [`Code::AdmissionConflict`] or [`Code::EffectConflict`];
    /// [`NodeError::Unavailable`].
    pub async fn discard(&self, call: &Call, discard: &Discard) -> Result<NodeReceipt, NodeError> {
        let receipt = self.make_step(call, Body::Discard(discard.clone()), content(call)?).await?;
        self.sessions.close(call.effect.operation);
        self.ceremonies.close(call.effect.operation);
        // Removes the staged share from the write-ahead log now, not at the next checkpoint.
        if let Err(error) = self.database.checkpoint().await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a discarded share may still be in the write-ahead log"
            );
        }
        Ok(receipt)
    }
}

impl Step {
    /// Checks and makes the step.
    pub(crate) async fn discard(
        &self,
        conn: &mut Connection,
        log: &LogState,
        view: View,
        discard: &Discard,
    ) -> Result<(), Stop> {
        if self.call.effect.step != EffectStep::Discard
            || self.call.previous != self.chain.after_admission()?
        {
            return Err(other_transition().into());
        }
        match view.row {
            None => {
                let decision = self.check_decided(conn, discard).await?;
                // The call does not say when the operation was approved.
                if log.readmitted_at() != EpochMs(0) {
                    let key = View::load(conn, self.call.effect, Some(decision.key_id)).await?.key;
                    self.check_no_result(conn, &decision, key.active.as_ref(), true, discard).await?;
                }
                let head = self.chain.after_discard()?;
                operation::insert(conn, &self.chain, EffectStep::Discard, head, None).await?;
            }
            Some(row) if row.admission_hash != self.call.admission_hash => {
                return Err(other_decision().into());
            }
            Some(row) => match row.last_step {
                EffectStep::CommitEpoch | EffectStep::Publish => {
                    return Err(cannot_follow(row.last_step).into());
                }
                EffectStep::Decision
                | EffectStep::Admission
                | EffectStep::PolicyReceipt
                | EffectStep::Execute
                | EffectStep::Discard => {
                    if let Some(AdmittedRequest { request, decision }) = &row.statement {
                        let active = view.key.active.as_ref();
                        let is_decided_before_readmission =
                            log.check_decided_since(request, decision).is_err();
                        self.check_no_result(conn, decision, active, is_decided_before_readmission, discard)
                            .await?;
                    }
                    spending::remove(conn, self.chain.operation_id).await?;
                    vault::delete_staged(conn, self.chain.operation_id).await?;
                }
            },
        }
        Ok(())
    }

    /// Checks that a pinned authority decided on this operation, which the node missed; the decision may have expired. A decision of an
    /// authority whose key is no longer pinned serves for a limited number of operations: no other node admits it either, and the
    /// operation has to end.
    async fn check_decided(
        &self,
        conn: &mut Connection,
        discard: &Discard,
    ) -> Result<AdmissionDecision, Stop> {
        let Some(decision) = unverified_decision(&discard.decision) else {
            return Err(NodeRejection::new(Code::AdmissionRefused, "the call has no decision").into());
        };
        let states_operation = decision.operation_id == self.chain.operation_id
            && decision.payload().is_ok_and(|payload| admission_hash(&payload) == self.chain.admission_hash);
        if !states_operation {
            return Err(other_decision().into());
        }
        let authorities = &self.config.settings.authorities;
        let Err(error) = admission::verify(&discard.decision, authorities, decision.not_before_ms) else {
            return Ok(decision);
        };
        if operation::n_missed(conn).await? < MISSED_DISCARDS_MAX {
            return Ok(decision);
        }
        Err(NodeRejection::new(Code::AdmissionRefused, error.to_string()).into())
    }

    /// Checks that no result can come to be with a share of this node, which the receipt states: the attempt that it completed, if any,
    /// cannot be completed elsewhere. A node that may have forgotten in a rollback what it completed does not know that of a
    /// signature; new shares cannot come in force if another of their receivers has discarded the operation.
    async fn check_no_result(
        &self,
        conn: &mut Connection,
        decision: &AdmissionDecision,
        active: Option<&Generation>,
        is_decided_before_readmission: bool,
        discard: &Discard,
    ) -> Result<(), Stop> {
        if needs_no_new_share(conn, decision, active).await? {
            return Ok(());
        }
        let receipts = &discard.discarded_attempts;
        if is_decided_before_readmission {
            let target = decision.target.as_ref();
            let receivers = target.map(|target| target.participants.as_set().clone()).unwrap_or_default();
            if !attempts::is_discarded_by(&self.config, &self.chain, &receivers, receipts)? {
                return Err(decided_before().into());
            }
        }
        match Completed::load(conn, self.chain.operation_id, decision).await? {
            Some(completed) => Ok(completed.check_discarded(&self.config, &self.chain, receipts)?),
            None => Ok(()),
        }
    }
}

/// Whether the operation's new share is not needed: it is of a key that was never in use, or this node held the generation that it was
/// to replace and the key has left it.
async fn needs_no_new_share(
    conn: &mut Connection,
    decision: &AdmissionDecision,
    active: Option<&Generation>,
) -> Result<bool, Stop> {
    Ok(match decision.operation_type {
        OperationType::KeyCreate | OperationType::Rotate => true,
        OperationType::Sign => false,
        OperationType::Refresh | OperationType::Reshare | OperationType::Recover => {
            let held = vault::load_promoted(conn, decision.key_id, &decision.epoch).await?;
            held.is_some() && active.is_none_or(|active| active.root != decision.epoch_root)
        }
    })
}
