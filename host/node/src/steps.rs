//! The steps around the ceremony: policy receipt, promotion, publication and discard.

pub(crate) mod attempts;
pub(crate) mod discard;
pub(crate) mod signing;

use crate::admission::gate::{self, Admitted, target};
use crate::call::{Call, CommitEpoch, Discard, Publication, Published, content};
use crate::error::{Code, NodeError, NodeRejection, Stop, result_refused};
use crate::memory::generations::Generations;
use crate::node::Node;
use crate::settings::NodeConfig;
use crate::steps::signing::{RoundOne, check_result};
use crate::store::log::{self, LogState};
use crate::store::operation::{self, View};
use crate::store::transaction::Transact;
use crate::store::vault::{self, Generation};
use gateway_domain::admission::{AdmissionDecision, Target};
use gateway_domain::canonical::CanonicalError;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::OperationType;
use gateway_domain::key::PublicKey;
use gateway_domain::operation::{EffectId, EffectStep, Staged};
use gateway_domain::receipt::{Chain, NodeReceipt, ReceiptKind, ReceiptStatement};
use gateway_domain::roster::{ParticipantIndex, Roster};
use gateway_sqlite::Connection;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A node's answer to the policy receipt step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyReceipt {
    /// The receipt.
    pub receipt: NodeReceipt,
    /// For a signature: commitments to nonces that are open for the first attempt, if they could be made.
    pub commitments: Option<Vec<u8>>,
}

impl Node {
    /// Records that execution may begin, and issues the policy receipt. Opens the nonces of a signature's first attempt, so that
    /// the caller needs no further call for their commitments.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::StepOutOfOrder`], [`Code::AdmissionExpired`], [`Code::AdmissionConflict`],
    /// [`Code::EpochConflict`], [`Code::EffectConflict`] or [`Code::OperationDiscarded`];
    /// [`NodeError::Unavailable`].
    pub async fn policy_receipt(&self, call: &Call) -> Result<PolicyReceipt, NodeError> {
        let receipt = self.make_step(call, Body::Receipt, content(call)?).await?;
        let effect = EffectId { step: EffectStep::Execute, attempt: 1, ..call.effect };
        let first = Call { effect, previous: self.chain(call).after_receipt()?, ..*call };
        // Whatever prevents it, the call of the attempt itself reports.
        let commitments = match self.signing_commit(&first, &[]).await {
            Ok(RoundOne::Committed(commitments)) => Some(commitments),
            Ok(RoundOne::Consumed { .. }) | Err(_) => None,
        };
        Ok(PolicyReceipt { receipt, commitments })
    }

    /// Promotes the staged generation, once all its receivers have signed that they staged it: before that, a share that is
    /// retired here might be needed. A node that leaves the roster retires its share instead. Promotion comes after the point of
    /// no return, so the decision may have expired.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::ReceiptRefused`] when a receiver's receipt is missing or wrong, [`Code::StepOutOfOrder`], [`Code::EpochConflict`] when this generation is not
    /// staged, [`Code::AdmissionConflict`], [`Code::EffectConflict`] or [`Code::OperationDiscarded`];
    /// [`NodeError::Unavailable`].
    pub async fn commit_epoch(&self, call: &Call, commit: &CommitEpoch) -> Result<NodeReceipt, NodeError> {
        let staged = ReceiptKind::Staged { attempt: commit.attempt, epoch_root: commit.epoch_root };
        self.show_own_receipt(&self.chain(call), &staged, &commit.staged).await?;
        let receipt =
            self.make_step(call, Body::CommitEpoch(commit.clone()), content(&(call, commit))?).await?;
        let mut conn = self.database.readers().at_hand().await?;
        let view = View::load(&mut conn, call.effect, None).await?;
        self.sessions
            .close_key(gate::find_admitted(view, call, EffectStep::CommitEpoch)?.statement.decision.key_id);
        Ok(receipt)
    }

    /// Checks the operation's result and records the publication, after which no further attempt is possible. New shares must be
    /// promoted by so many receivers that the key signs; if all have signed that they did, erases the shares that were replaced. A
    /// rotation retires the old key's share instead.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::ReceiptRefused`] when a receiver's receipt is missing or wrong, and
    /// [`Code::ResultRefused`] for a result that is not the operation's; the other errors of [`Self::commit_epoch`].
    pub async fn publish(&self, call: &Call, publication: &Publication) -> Result<NodeReceipt, NodeError> {
        let content = content(&(call, publication))?;
        if let Published::Generation(staged) = &publication.result {
            let promoted =
                ReceiptKind::Promoted { attempt: publication.attempt, epoch_root: staged.epoch.root };
            self.show_own_receipt(&self.chain(call), &promoted, &publication.promoted).await?;
        }
        let receipt = self.make_step(call, Body::Publish(publication.clone()), content).await?;
        self.sessions.close(call.effect.operation);
        Ok(receipt)
    }

    pub(crate) async fn make_step(
        &self,
        call: &Call,
        body: Body,
        content: Hex32,
    ) -> Result<NodeReceipt, NodeError> {
        let (config, generations) = (Arc::clone(&self.config), Arc::clone(&self.generations));
        let step = Step { call: *call, chain: self.chain(call), content, body, config, generations };
        let (statement, log_index) = self.write(step).await?;
        self.issue_receipt(&statement, log_index)
    }
}

/// The step to make, with its arguments.
pub(crate) enum Body {
    Receipt,
    CommitEpoch(CommitEpoch),
    Publish(Publication),
    Discard(Discard),
}

const STEP_DAMAGED: NodeError =
    NodeError::unavailable("the node's store is damaged: the recorded answer does not match the step");

const NOT_PINNED: NodeError = NodeError::unavailable("the identity of a node with a new share is not pinned");

/// Checks and makes one step, in one transaction.
pub(crate) struct Step {
    pub(crate) call: Call,
    pub(crate) chain: Chain,
    /// Digest of the call.
    content: Hex32,
    body: Body,
    pub(crate) config: Arc<NodeConfig>,
    generations: Arc<Generations>,
}

impl Transact for Step {
    type Output = (ReceiptStatement, u64);

    async fn run(&self, conn: &mut Connection, log: &mut LogState) -> Result<Self::Output, Stop> {
        let effect = self.call.effect;
        let view = View::load(conn, effect, None).await?;
        let decision = view.row.as_ref().and_then(|row| row.statement.as_ref()).map(|known| &known.decision);
        let statement = self.statement(decision);
        if let Some(answer) = &view.answer {
            let head = answer.repeat(effect, self.content)?;
            let statement = statement?.filter(|statement| statement.transition_hash == head);
            let statement = statement.ok_or(STEP_DAMAGED)?;
            let log_index = log::receipt_index(conn, &statement).await?;
            return Ok((statement, log_index));
        }
        match &self.body {
            Body::Receipt => self.check_policy_receipt(view)?,
            Body::CommitEpoch(commit) => self.commit_epoch(conn, view, commit).await?,
            Body::Publish(publication) => self.publish(conn, view, publication).await?,
            Body::Discard(discard) => self.discard(conn, log, view, discard).await?,
        }
        let statement = statement?.ok_or(STEP_DAMAGED)?;
        let signed_before = match &self.body {
            // Another call may have made the same step.
            Body::CommitEpoch(_) | Body::Discard(_) => log::find_receipt(conn, &statement).await?,
            Body::Receipt | Body::Publish(_) => None,
        };
        let (log_index, entry) = match signed_before {
            Some(log_index) => (log_index, None),
            None => (log.size(), Some(log.append_receipt(&statement, None)?)),
        };
        let head = statement.transition_hash;
        operation::advance_with_answer(conn, effect, self.content, head, entry.as_ref()).await?;
        Ok((statement, log_index))
    }
}

impl Step {
    /// The statement of the receipt for this step. `None` if it needs the decision and the operation is not admitted here.
    fn statement(
        &self,
        decision: Option<&AdmissionDecision>,
    ) -> Result<Option<ReceiptStatement>, CanonicalError> {
        let kind = match (&self.body, decision) {
            (Body::Discard(_), _) => ReceiptKind::Discarded,
            (Body::Receipt, Some(decision)) => ReceiptKind::PolicyReceipt(decision.into()),
            (Body::CommitEpoch(CommitEpoch { attempt, epoch_root, .. }), _) => {
                ReceiptKind::Promoted { attempt: *attempt, epoch_root: *epoch_root }
            }
            (Body::Publish(Publication { attempt, result, .. }), Some(decision)) => ReceiptKind::Published {
                attempt: *attempt,
                operation_type: decision.operation_type,
                result_ref: result.result_ref()?,
            },
            (Body::Receipt | Body::Publish(_), None) => return Ok(None),
        };
        self.chain.statement(&kind).map(Some)
    }

    fn check_policy_receipt(&self, view: View) -> Result<(), Stop> {
        let admitted = gate::find_admitted(view, &self.call, EffectStep::PolicyReceipt)?;
        gate::check_order(&self.call, &admitted, self.chain.after_admission()?, &[EffectStep::Admission])?;
        gate::check_validity(&self.config, &admitted)?;
        Ok(gate::check_fence(&admitted.statement)?)
    }

    async fn commit_epoch(
        &self,
        conn: &mut Connection,
        view: View,
        commit: &CommitEpoch,
    ) -> Result<(), Stop> {
        let admitted = gate::find_admitted(view, &self.call, EffectStep::CommitEpoch)?;
        let expected = self.chain.after_execute(commit.attempt)?;
        let decision = &admitted.statement.decision;
        let target = target(decision)?;
        let staged = ReceiptKind::Staged { attempt: commit.attempt, epoch_root: commit.epoch_root };
        if !target.participants.as_set().contains(&self.chain.participant) {
            // This node leaves the roster. It may have missed the ceremony.
            let steps = [EffectStep::PolicyReceipt, EffectStep::Execute, EffectStep::CommitEpoch];
            gate::check_order(&self.call, &admitted, expected, &steps)?;
            self.check_receipts(&target.participants, &staged, &commit.staged)?;
            if admitted.last_step == EffectStep::Execute {
                self.check_own_root(conn, &staged).await?;
            }
            if target.key_id == decision.key_id {
                vault::retire(conn, decision.key_id, decision.epoch_root).await?;
            }
            return Ok(());
        }
        let steps = [EffectStep::Execute, EffectStep::CommitEpoch];
        gate::check_order(&self.call, &admitted, expected, &steps)?;
        let is_repeat = admitted.last_step == EffectStep::CommitEpoch;
        if is_repeat {
            gate::check_head(&admitted, self.chain.after_commit_epoch(commit.attempt)?)?;
        }
        let found = if is_repeat {
            vault::load_promoted(conn, target.key_id, &target.epoch).await?
        } else {
            vault::load_staged(conn, self.chain.operation_id, commit.attempt).await?
        };
        let Some(found) = found.filter(|found| found.root == commit.epoch_root) else {
            return Err(
                NodeRejection::new(Code::EpochConflict, "the node has not staged this generation").into()
            );
        };
        if !is_repeat {
            self.check_receipts(&target.participants, &staged, &commit.staged)?;
            // Of two operations that were admitted for the same generation, only one can be promoted.
            gate::check_generation(&admitted.statement, self.chain.participant, &admitted.key)?;
            let now = (self.config.settings.clock)();
            vault::promote(conn, target.key_id, &found.epoch, now).await?;
        }
        Ok(())
    }

    async fn publish(
        &self,
        conn: &mut Connection,
        view: View,
        publication: &Publication,
    ) -> Result<(), Stop> {
        let admitted = gate::find_admitted(view, &self.call, EffectStep::Publish)?;
        let decision = &admitted.statement.decision;
        let previous =
            self.chain.before(EffectStep::Publish, decision.operation_type, publication.attempt)?;
        match decision.operation_type {
            OperationType::Sign => {
                // A node that was not among the signers can publish too: it verifies the signature.
                let steps = [EffectStep::PolicyReceipt, EffectStep::Execute];
                gate::check_order(&self.call, &admitted, previous, &steps)?;
                self.check_published_signature(conn, &admitted, publication).await
            }
            OperationType::KeyCreate
            | OperationType::Refresh
            | OperationType::Reshare
            | OperationType::Rotate
            | OperationType::Recover => {
                gate::check_order(&self.call, &admitted, previous, &[EffectStep::CommitEpoch])?;
                gate::check_head(&admitted, previous)?;
                let made = self.check_published_generation(conn, decision, publication).await?;
                let are_complete = self.check_promoted(made, publication)?;
                // The old key of a rotation stays active until its successor is published. Its shares are kept, since funds
                // may have to be moved from its address.
                if decision.operation_type == OperationType::Rotate {
                    vault::retire(conn, decision.key_id, decision.epoch_root).await
                } else if are_complete {
                    vault::erase_retired(conn, decision.key_id).await
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Checks that so many receivers have signed that they promoted the new shares that the key signs. Returns whether all have:
    /// before that, no share is erased that might be needed.
    fn check_promoted(&self, made: &Staged, publication: &Publication) -> Result<bool, NodeError> {
        let kind = ReceiptKind::Promoted { attempt: publication.attempt, epoch_root: made.epoch.root };
        let promoted = self.signers_of(&made.participants, &kind, &publication.promoted)?;
        if promoted.len() < made.threshold.count() {
            self.require(&made.participants, &kind, &promoted)?;
        }
        Ok(promoted == *made.participants.as_set())
    }

    /// Checks that this node, which dealt shares of the new generation and leaves, computed the same root in the ceremony.
    async fn check_own_root(&self, conn: &mut Connection, staged: &ReceiptKind) -> Result<(), Stop> {
        let own = self.chain.statement(staged)?;
        match log::find_statement(conn, &own).await? {
            Some((_, signed)) if signed != own => {
                let detail = "the node dealt shares of another generation in this attempt";
                Err(NodeRejection::new(Code::EpochConflict, detail).into())
            }
            // It took no part in this attempt.
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that each of these nodes signed a receipt of this kind for this operation.
    fn check_receipts(
        &self,
        nodes: &Roster,
        kind: &ReceiptKind,
        receipts: &[NodeReceipt],
    ) -> Result<(), NodeError> {
        self.require(nodes, kind, &self.signers_of(nodes, kind, receipts)?)
    }

    fn require(
        &self,
        nodes: &Roster,
        kind: &ReceiptKind,
        signers: &BTreeSet<ParticipantIndex>,
    ) -> Result<(), NodeError> {
        let Some(missing) = nodes.iter().find(|node| !signers.contains(node)) else { return Ok(()) };
        let step = self.chain.statement(kind)?.step.as_str();
        let detail = format!("participant {missing} has signed no receipt for the step `{step}`");
        Err(NodeRejection::new(Code::ReceiptRefused, detail).into())
    }

    /// Those of these nodes that signed a receipt of this kind for this operation.
    fn signers_of(
        &self,
        nodes: &Roster,
        kind: &ReceiptKind,
        receipts: &[NodeReceipt],
    ) -> Result<BTreeSet<ParticipantIndex>, NodeError> {
        let mut signers = BTreeSet::new();
        for participant in nodes.iter() {
            let statement = Chain { participant, ..self.chain }.statement(kind)?;
            let pinned = self.config.peers.pinned(participant).ok_or(NOT_PINNED)?;
            let own = receipts.iter().find(|receipt| receipt.participant == participant);
            if own.is_some_and(|receipt| receipt.verify(&statement, &pinned.signing_key()).is_ok()) {
                signers.insert(participant);
            }
        }
        Ok(signers)
    }

    async fn check_published_signature(
        &self,
        conn: &mut Connection,
        admitted: &Admitted,
        publication: &Publication,
    ) -> Result<(), Stop> {
        let Published::Signature(signature) = &publication.result else {
            return Err(result_refused("there is no signature to publish").into());
        };
        let decision = &admitted.statement.decision;
        let held = match &admitted.key.active {
            Some(active) if active.root == decision.epoch_root => active.clone(),
            // The key's epoch has changed since it signed.
            Some(_) | None => {
                let past = vault::load_promoted(conn, decision.key_id, &decision.epoch).await?;
                past.ok_or(NodeError::NO_SHARE)?
            }
        };
        let keys = self.generations.keys(held.root, || held.decode(decision.key_id))?;
        Ok(check_result(decision, &keys, signature)?)
    }

    /// Checks that the generation is the admitted one and, unless this node leaves the roster, the one that it promoted. Returns it.
    async fn check_published_generation<'p>(
        &self,
        conn: &mut Connection,
        decision: &AdmissionDecision,
        publication: &'p Publication,
    ) -> Result<&'p Staged, Stop> {
        let Published::Generation(staged) = &publication.result else {
            return Err(result_refused("there is no generation to publish").into());
        };
        let Target { key_id, epoch, participants, threshold } = target(decision)?;
        let Staged { epoch: made, public, .. } = staged.as_ref();
        let is_admitted =
            made.name == *epoch && staged.participants == *participants && staged.threshold == *threshold;
        // Decodes the package of the call, not a cached one: the receipt covers this package.
        let package = hex::decode(&public.package_hex).unwrap_or_default();
        let keys = Generation::new(epoch.clone(), made.root, package).decode(*key_id);
        let matches_package = keys.is_ok_and(|keys| {
            let (public_key_hex, package_hex) =
                (hex::encode(keys.public_key()), hex::encode(keys.to_bytes()));
            *public == PublicKey { public_key_hex, package_hex }
        });
        let leaves = !participants.as_set().contains(&self.chain.participant);
        let is_promoted = leaves || {
            let promoted = vault::load_promoted(conn, *key_id, epoch).await?;
            promoted.is_some_and(|promoted| promoted.root == made.root)
        };
        if is_admitted && matches_package && is_promoted {
            return Ok(staged);
        }
        Err(result_refused("the generation is not the one that was admitted and promoted").into())
    }
}
