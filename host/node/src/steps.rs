//! The steps around the ceremony: policy receipt, promotion, publication and discard.

use crate::call::{Call, CommitEpoch, Publication, Published, content};
use crate::error::{Code, NodeError, Rejection, Stop};
use crate::gate::{self, Standing, out_of_order};
use crate::generations::Generations;
use crate::node::{Node, NodeConfig, Transact};
use crate::part::target;
use crate::row::{self, View};
use crate::signing::{check_result, result_refused};
use crate::vault::{self, Held};
use gateway_domain::admission::{AdmissionDecision, Target};
use gateway_domain::canonical::CanonicalError;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::OperationType;
use gateway_domain::key::PublicKey;
use gateway_domain::operation::{EffectStep, Staged};
use gateway_domain::receipt::{Chain, NodeReceipt, ReceiptKind, ReceiptStatement};
use sqlx::SqliteConnection;
use std::sync::Arc;

impl Node {
    /// Issues the policy receipt: the operation is about to be executed.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::StepOutOfOrder`], [`Code::AdmissionExpired`], [`Code::AdmissionConflict`],
    /// [`Code::EpochConflict`], [`Code::EffectConflict`] or [`Code::OperationDiscarded`];
    /// [`NodeError::Unavailable`].
    pub async fn materialize_receipt(&self, call: &Call) -> Result<NodeReceipt, NodeError> {
        self.step(call, Body::Receipt, content(call)?).await
    }

    /// Promotes the staged generation. This is past the point of no return, so an expired decision does not stop it.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::StepOutOfOrder`], [`Code::EpochConflict`] when another generation is
    /// staged, [`Code::AdmissionConflict`], [`Code::EffectConflict`] or [`Code::OperationDiscarded`];
    /// [`NodeError::Unavailable`].
    pub async fn commit_epoch(&self, call: &Call, commit: &CommitEpoch) -> Result<NodeReceipt, NodeError> {
        let receipt = self.step(call, Body::CommitEpoch(*commit), content(&(call, commit))?).await?;
        let mut conn = self.database.reader().acquire().await?;
        let view = View::load(&mut conn, call.effect, None).await?;
        self.sessions.close_key(gate::known(view, call, EffectStep::CommitEpoch)?.statement.decision.key_id);
        Ok(receipt)
    }

    /// Checks the operation's result, opens the publication gate for it, and erases retired shares. No attempt at the ceremony
    /// can follow.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::ResultRefused`] for a signature that is not the operation's, otherwise as
    /// [`Self::commit_epoch`].
    pub async fn publish(&self, call: &Call, publication: &Publication) -> Result<NodeReceipt, NodeError> {
        let content = content(&(call, publication))?;
        let receipt = self.step(call, Body::Publish(publication.clone()), content).await?;
        self.sessions.close(call.effect.operation);
        Ok(receipt)
    }

    /// Discards the operation and its staged share for good: the node refuses to sign it from now on, also if it did not know
    /// it. A discard and the record of a released share are transactions of one writer, and each excludes the other.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::StepOutOfOrder`] once its generation is in force or a share of its signature left,
    /// [`Code::AdmissionConflict`] or [`Code::EffectConflict`]; [`NodeError::Unavailable`].
    pub async fn discard(&self, call: &Call) -> Result<NodeReceipt, NodeError> {
        let receipt = self.step(call, Body::Discard, content(call)?).await?;
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

    async fn step(&self, call: &Call, body: Body, content: Hex32) -> Result<NodeReceipt, NodeError> {
        let (config, generations) = (Arc::clone(&self.config), Arc::clone(&self.generations));
        let step = Step { call: *call, chain: self.chain(call), content, body, config, generations };
        self.attest(&self.write(step).await?)
    }
}

/// The step to make, with its arguments.
enum Body {
    Receipt,
    CommitEpoch(CommitEpoch),
    Publish(Publication),
    Discard,
}

const NOT_AS_RECORDED: NodeError =
    NodeError::unavailable("the node's store is damaged: a step is not what was recorded of it");

/// One step, checked and made in one transaction.
struct Step {
    call: Call,
    chain: Chain,
    /// Digest of the call.
    content: Hex32,
    body: Body,
    config: Arc<NodeConfig>,
    generations: Arc<Generations>,
}

impl Transact for Step {
    type Output = ReceiptStatement;

    async fn run(&self, conn: &mut SqliteConnection) -> Result<ReceiptStatement, Stop> {
        let effect = self.call.effect;
        let view = View::load(conn, effect, None).await?;
        let decision = view.row.as_ref().and_then(|row| row.statement.as_ref()).map(|known| &known.decision);
        let statement = self.statement(decision);
        if let Some(answer) = &view.answer {
            let head = answer.repeat(effect, self.content)?;
            return Ok(statement?
                .filter(|statement| statement.transition_hash == head)
                .ok_or(NOT_AS_RECORDED)?);
        }
        match &self.body {
            Body::Receipt => self.receipt(view)?,
            Body::CommitEpoch(commit) => self.commit_epoch(conn, view, commit).await?,
            Body::Publish(publication) => self.publish(conn, view, publication).await?,
            Body::Discard => self.discard(conn, view).await?,
        }
        let statement = statement?.ok_or(NOT_AS_RECORDED)?;
        row::advance_by(conn, effect, self.content, statement.transition_hash).await?;
        Ok(statement)
    }
}

impl Step {
    /// The receipt's statement once the step is made; none for an operation that this node does not know.
    fn statement(
        &self,
        decision: Option<&AdmissionDecision>,
    ) -> Result<Option<ReceiptStatement>, CanonicalError> {
        let kind = match (&self.body, decision) {
            (Body::Discard, _) => ReceiptKind::Discarded,
            (Body::Receipt, Some(decision)) => ReceiptKind::PolicyReceipt(decision.into()),
            (Body::CommitEpoch(CommitEpoch { attempt, epoch_root }), _) => {
                ReceiptKind::Promoted { attempt: *attempt, epoch_root: *epoch_root }
            }
            (Body::Publish(Publication { attempt, result }), Some(decision)) => ReceiptKind::Published {
                attempt: *attempt,
                operation_type: decision.operation_type,
                result_ref: result.result_ref()?,
            },
            (Body::Receipt | Body::Publish(_), None) => return Ok(None),
        };
        self.chain.statement(&kind).map(Some)
    }

    fn receipt(&self, view: View) -> Result<(), Stop> {
        let standing = gate::known(view, &self.call, EffectStep::PolicyReceipt)?;
        gate::in_order(&self.call, &standing, self.chain.after_admission()?, &[EffectStep::Admission])?;
        gate::in_force(&self.config, &standing)?;
        Ok(gate::check_fence(&standing.statement)?)
    }

    async fn commit_epoch(
        &self,
        conn: &mut SqliteConnection,
        view: View,
        commit: &CommitEpoch,
    ) -> Result<(), Stop> {
        let standing = gate::known(view, &self.call, EffectStep::CommitEpoch)?;
        let expected = self.chain.after_execute(commit.attempt)?;
        let decision = &standing.statement.decision;
        let target = target(decision)?;
        if !target.participants.as_set().contains(&self.chain.participant) {
            // This node leaves the roster. Whether it dealt or was down, its share has no use from now on.
            let steps = [EffectStep::PolicyReceipt, EffectStep::Execute, EffectStep::CommitEpoch];
            gate::in_order(&self.call, &standing, expected, &steps)?;
            if target.key_id == decision.key_id {
                vault::retire(conn, decision.key_id, decision.epoch_root).await?;
            }
            return Ok(());
        }
        let steps = [EffectStep::Execute, EffectStep::CommitEpoch];
        gate::in_order(&self.call, &standing, expected, &steps)?;
        let is_repeat = standing.last_step == EffectStep::CommitEpoch;
        if is_repeat {
            gate::builds_on(&standing, self.chain.after_commit_epoch(commit.attempt)?)?;
        }
        let found = if is_repeat {
            vault::generation(conn, target.key_id, &target.epoch).await?
        } else {
            vault::staged(conn, self.chain.operation_id, commit.attempt).await?
        };
        let Some(found) = found.filter(|found| found.root == commit.epoch_root) else {
            return Err(Rejection::new(Code::EpochConflict, "another generation is staged").into());
        };
        if !is_repeat {
            // The key is still in the admitted generation: of two operations admitted for one generation, one can follow it.
            gate::key_fits(&standing.statement, self.chain.participant, &standing.key)?;
            vault::promote(conn, target.key_id, &found.epoch).await?;
            vault::keep_use(conn, target.key_id, decision.serves).await?;
        }
        Ok(())
    }

    async fn publish(
        &self,
        conn: &mut SqliteConnection,
        view: View,
        publication: &Publication,
    ) -> Result<(), Stop> {
        let standing = gate::known(view, &self.call, EffectStep::Publish)?;
        let decision = &standing.statement.decision;
        let previous =
            self.chain.before(EffectStep::Publish, decision.operation_type, publication.attempt)?;
        match decision.operation_type {
            OperationType::Sign => {
                // The signature itself lets a node publish that was not among the signers.
                let steps = [EffectStep::PolicyReceipt, EffectStep::Execute];
                gate::in_order(&self.call, &standing, previous, &steps)?;
                self.check_signature(conn, &standing, publication).await
            }
            OperationType::KeyCreate
            | OperationType::Refresh
            | OperationType::Reshare
            | OperationType::Rotate
            | OperationType::Recover => {
                gate::in_order(&self.call, &standing, previous, &[EffectStep::CommitEpoch])?;
                gate::builds_on(&standing, previous)?;
                self.check_generation(conn, decision, publication).await?;
                // A rotated key signs until its successor does. Its shares are retired and not erased, since its address may
                // have to be swept.
                if decision.operation_type == OperationType::Rotate {
                    vault::retire(conn, decision.key_id, decision.epoch_root).await
                } else {
                    vault::erase_retired(conn, decision.key_id, decision.epoch_root).await
                }
            }
        }
    }

    async fn check_signature(
        &self,
        conn: &mut SqliteConnection,
        standing: &Standing,
        publication: &Publication,
    ) -> Result<(), Stop> {
        let Published::Signature(signature) = &publication.result else {
            return Err(result_refused("there is no signature to publish").into());
        };
        let decision = &standing.statement.decision;
        let held = match &standing.key.active {
            Some(active) if active.root == decision.epoch_root => active.clone(),
            // The key has changed its epoch since it signed.
            Some(_) | None => {
                let past = vault::generation(conn, decision.key_id, &decision.epoch).await?;
                past.ok_or(vault::NO_SHARE)?
            }
        };
        let keys = self.generations.keys(held.root, || held.decode(decision.key_id))?;
        Ok(check_result(decision, &keys, signature)?)
    }

    /// The generation is as it was admitted, and the one that this node promoted. A node that leaves has none to compare it
    /// with.
    async fn check_generation(
        &self,
        conn: &mut SqliteConnection,
        decision: &AdmissionDecision,
        publication: &Publication,
    ) -> Result<(), Stop> {
        let Published::Generation(staged) = &publication.result else {
            return Err(result_refused("there is no generation to publish").into());
        };
        let Target { key_id, epoch, participants, threshold } = target(decision)?;
        let Staged { epoch: made, public, .. } = staged.as_ref();
        let is_admitted =
            made.name == *epoch && staged.participants == *participants && staged.threshold == *threshold;
        // Decodes the given package, not a cached one: the receipt will be over this package.
        let given = hex::decode(&public.package_hex).unwrap_or_default();
        let keys = Held::new(epoch.clone(), made.root, given).decode(*key_id);
        let is_its_key = keys.is_ok_and(|keys| {
            let (public_key_hex, package_hex) =
                (hex::encode(keys.public_key()), hex::encode(keys.to_bytes()));
            *public == PublicKey { public_key_hex, package_hex }
        });
        let is_mine = if participants.as_set().contains(&self.chain.participant) {
            let held = vault::generation(conn, *key_id, epoch).await?;
            held.is_some_and(|held| held.root == made.root)
        } else {
            true
        };
        if is_admitted && is_its_key && is_mine {
            return Ok(());
        }
        Err(result_refused("the generation is not the one that was admitted and put in force").into())
    }

    async fn discard(&self, conn: &mut SqliteConnection, view: View) -> Result<(), Stop> {
        if self.call.effect.step != EffectStep::Discard
            || self.call.previous != self.chain.after_admission()?
        {
            return Err(gate::other_transition().into());
        }
        match view.row {
            None => {
                let head = self.chain.after_discard()?;
                row::insert(conn, &self.chain, EffectStep::Discard, head, None).await?;
            }
            Some(row) if row.admission_hash != self.call.admission_hash => {
                return Err(gate::other_decision().into());
            }
            Some(row) => match row.last_step {
                // The share may be part of a signature already.
                EffectStep::Execute if row.signs() => {
                    return Err(out_of_order("a share of the signature left this node").into());
                }
                EffectStep::CommitEpoch | EffectStep::Publish => {
                    return Err(gate::after(row.last_step).into());
                }
                EffectStep::Decision
                | EffectStep::Admission
                | EffectStep::PolicyReceipt
                | EffectStep::Execute
                | EffectStep::Discard => vault::forget(conn, self.chain.operation_id).await?,
            },
        }
        Ok(())
    }
}
