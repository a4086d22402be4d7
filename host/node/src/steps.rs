//! The steps around the ceremony: receipt, promotion, publication, and giving up.

use crate::call::{Call, CommitEpoch, Publication, Published, content};
use crate::error::{Code, NodeError, Rejection, Stop, answer};
use crate::gate::{self, Standing, out_of_order};
use crate::generations::Generations;
use crate::node::{Node, NodeConfig};
use crate::part::target;
use crate::row::{self, Stage, View};
use crate::signing::{check_result, result_refused};
use crate::vault::{self, Held};
use gateway_domain::admission::{AdmissionDecision, Target};
use gateway_domain::canonical::CanonicalError;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::OperationType;
use gateway_domain::key::PublicKey;
use gateway_domain::operation::{EffectStep, Staged};
use gateway_domain::receipt::{Chain, NodeReceipt, ReceiptKind, ReceiptStatement};
use gateway_sqlite::Job;
use sqlx::SqliteConnection;
use std::sync::Arc;

impl Node {
    /// Fixes the policy receipt: the operation is about to be executed.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::StepOutOfOrder`], [`Code::AdmissionExpired`], [`Code::AdmissionConflict`],
    /// [`Code::EpochConflict`], [`Code::EffectConflict`] or [`Code::OperationDiscarded`];
    /// [`NodeError::Unavailable`].
    pub async fn materialize_receipt(&self, call: &Call) -> Result<NodeReceipt, NodeError> {
        self.step(call, Body::Receipt, content(call)?).await
    }

    /// Puts the staged generation in force. Past the point of no return, so no expiry stops it.
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

    /// Opens the publication gate for the operation's result, after checking a signature itself, and erases retired
    /// shares. No further attempt at the ceremony is made after it.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::ResultRefused`] for a signature that is not the operation's, otherwise as
    /// [`Self::commit_epoch`].
    pub async fn publish(&self, call: &Call, publication: &Publication) -> Result<NodeReceipt, NodeError> {
        let said = content(&(call, publication))?;
        let receipt = self.step(call, Body::Publish(publication.clone()), said).await?;
        self.sessions.close(call.effect.operation);
        Ok(receipt)
    }

    /// Discards the operation and what it staged, for good: the node refuses to sign it from now on, also if it never heard of
    /// it before. A discard and the record of a released share are transactions of one writer, and each excludes the other.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::StepOutOfOrder`] once its generation is in force, or a share of its signature left,
    /// [`Code::AdmissionConflict`] or [`Code::EffectConflict`]; [`NodeError::Unavailable`].
    pub async fn discard(&self, call: &Call) -> Result<NodeReceipt, NodeError> {
        let receipt = self.step(call, Body::Discard, content(call)?).await?;
        self.sessions.close(call.effect.operation);
        self.ceremonies.close(call.effect.operation);
        // The staged share is out of the file with this; without it, at the next checkpoint.
        if let Err(error) = self.database.checkpoint().await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a discarded share may still be in the log"
            );
        }
        Ok(receipt)
    }

    async fn step(&self, call: &Call, body: Body, said: Hex32) -> Result<NodeReceipt, NodeError> {
        let (config, generations) = (Arc::clone(&self.config), Arc::clone(&self.generations));
        let step = Step { call: *call, chain: self.chain(call), said, body, config, generations };
        let statement = self.database.write(step).await??;
        self.attest(&statement)
    }
}

/// What a step is to do.
enum Body {
    Receipt,
    CommitEpoch(CommitEpoch),
    Publish(Publication),
    Discard,
}

const UNLIKE: NodeError =
    NodeError::unavailable("the node's store is damaged: a step is not what was recorded of it");

/// One step, checked and made in one transaction.
struct Step {
    call: Call,
    chain: Chain,
    said: Hex32,
    body: Body,
    config: Arc<NodeConfig>,
    generations: Arc<Generations>,
}

impl Job for Step {
    type State = ();
    type Output = Result<ReceiptStatement, NodeError>;

    async fn apply(&self, conn: &mut SqliteConnection, (): &mut ()) -> Result<Self::Output, sqlx::Error> {
        answer(self.run(conn).await)
    }
}

impl Step {
    /// What the receipt is to state.
    async fn run(&self, conn: &mut SqliteConnection) -> Result<ReceiptStatement, Stop> {
        let effect = self.call.effect;
        let view = View::load(conn, effect, None).await?;
        let decision = view.row.as_ref().and_then(|row| row.statement.as_ref()).map(|known| &known.decision);
        let statement = self.statement(decision);
        if let Some(answer) = &view.answer {
            let head = answer.repeat(effect, self.said)?;
            return Ok(statement?.filter(|statement| statement.transition_hash == head).ok_or(UNLIKE)?);
        }
        let stage = match &self.body {
            Body::Receipt => self.receipt(view)?,
            Body::CommitEpoch(commit) => self.commit_epoch(conn, view, commit).await?,
            Body::Publish(publication) => self.publish(conn, view, publication).await?,
            Body::Discard => self.discard(conn, view).await?,
        };
        let statement = statement?.ok_or(UNLIKE)?;
        row::advance_by(conn, effect, self.said, stage, statement.transition_hash).await?;
        Ok(statement)
    }

    /// What this node states once the step is made; none for an operation it was never shown.
    fn statement(
        &self,
        decision: Option<&AdmissionDecision>,
    ) -> Result<Option<ReceiptStatement>, CanonicalError> {
        let deed = match (&self.body, decision) {
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
        self.chain.statement(&deed).map(Some)
    }

    fn receipt(&self, view: View) -> Result<Stage, Stop> {
        let standing = gate::known(view, &self.call, EffectStep::PolicyReceipt)?;
        gate::in_order(&self.call, &standing, self.chain.after_admission()?, &[Stage::Admitted])?;
        gate::in_force(&self.config, &standing)?;
        gate::check_fence(&standing.statement)?;
        Ok(Stage::Receipted)
    }

    async fn commit_epoch(
        &self,
        conn: &mut SqliteConnection,
        view: View,
        commit: &CommitEpoch,
    ) -> Result<Stage, Stop> {
        let standing = gate::known(view, &self.call, EffectStep::CommitEpoch)?;
        let expected = self.chain.after_execute(commit.attempt)?;
        let decision = &standing.statement.decision;
        let target = target(decision)?;
        if !target.participants.as_set().contains(&self.chain.participant) {
            // It leaves: whether it dealt or was away, what it holds is of no use from now on.
            let stages = &[Stage::Receipted, Stage::Executed, Stage::Committed];
            gate::in_order(&self.call, &standing, expected, stages)?;
            if target.key_id == decision.key_id {
                vault::retire(conn, decision.key_id, decision.epoch_root).await?;
            }
            return Ok(Stage::Committed);
        }
        gate::in_order(&self.call, &standing, expected, &[Stage::Executed, Stage::Committed])?;
        if standing.stage == Stage::Committed {
            gate::builds_on(&standing, self.chain.after_commit_epoch(commit.attempt)?)?;
        }
        let found = match standing.stage {
            Stage::Committed => vault::generation(conn, target.key_id, &target.epoch).await?,
            Stage::Admitted | Stage::Receipted | Stage::Executed | Stage::Published | Stage::Discarded => {
                vault::staged(conn, self.chain.operation_id, commit.attempt).await?
            }
        };
        let Some(found) = found.filter(|found| found.root == commit.epoch_root) else {
            return Err(Rejection::new(Code::EpochConflict, "another generation is staged").into());
        };
        if standing.stage == Stage::Executed {
            // Nothing came in between: two operations that were admitted for one generation can not both follow it.
            gate::key_fits(&standing.statement, self.chain.participant, &standing.key)?;
            vault::promote(conn, target.key_id, &found.epoch).await?;
            vault::keep_use(conn, target.key_id, decision.serves).await?;
        }
        Ok(Stage::Committed)
    }

    async fn publish(
        &self,
        conn: &mut SqliteConnection,
        view: View,
        publication: &Publication,
    ) -> Result<Stage, Stop> {
        let standing = gate::known(view, &self.call, EffectStep::Publish)?;
        let decision = &standing.statement.decision;
        let previous =
            self.chain.before(EffectStep::Publish, decision.operation_type, publication.attempt)?;
        match decision.operation_type {
            OperationType::Sign => {
                // A node that was not among the signers goes on from the receipt, on the strength of the signature.
                gate::in_order(&self.call, &standing, previous, &[Stage::Receipted, Stage::Executed])?;
                self.check_signature(conn, &standing, publication).await?;
            }
            OperationType::KeyCreate
            | OperationType::Refresh
            | OperationType::Reshare
            | OperationType::Rotate
            | OperationType::Recover => {
                gate::in_order(&self.call, &standing, previous, &[Stage::Committed])?;
                gate::builds_on(&standing, previous)?;
                self.check_generation(conn, decision, publication).await?;
                // A rotated key signs until its successor does. It may still have to be swept: its shares are then out
                // of force, not gone.
                if decision.operation_type == OperationType::Rotate {
                    vault::retire(conn, decision.key_id, decision.epoch_root).await?;
                } else {
                    vault::erase_retired(conn, decision.key_id, decision.epoch_root).await?;
                }
            }
        }
        Ok(Stage::Published)
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
            // The key has moved on since it signed.
            Some(_) | None => {
                let past = vault::generation(conn, decision.key_id, &decision.epoch).await?;
                past.ok_or(vault::NO_SHARE)?
            }
        };
        let keys = self.generations.keys(held.root, || held.decode(decision.key_id))?;
        Ok(check_result(decision, &keys, signature)?)
    }

    /// The generation is as it was admitted, and the one that this node put in force. One that leaves holds none to
    /// compare it with.
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
        // Not from the decoded generations: it is the package told here that the receipt will be for.
        let told = hex::decode(&public.package_hex).unwrap_or_default();
        let keys = Held::new(epoch.clone(), made.root, told).decode(*key_id);
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

    async fn discard(&self, conn: &mut SqliteConnection, view: View) -> Result<Stage, Stop> {
        if self.call.effect.step != EffectStep::Discard
            || self.call.previous != self.chain.after_admission()?
        {
            return Err(out_of_order("the step follows another transition").into());
        }
        match view.row {
            None => {
                let head = self.chain.after_discard()?;
                row::insert(conn, &self.chain, Stage::Discarded, head, None).await?;
            }
            Some(row) if row.admission_hash != self.call.admission_hash => {
                return Err(gate::other_decision().into());
            }
            Some(row) => match row.stage {
                // Its share may be part of a signature already.
                Stage::Executed if row.signs() => {
                    return Err(out_of_order("a share of the signature left this node").into());
                }
                Stage::Admitted | Stage::Receipted | Stage::Executed | Stage::Discarded => {
                    vault::forget(conn, self.chain.operation_id).await?;
                }
                Stage::Committed | Stage::Published => {
                    return Err(out_of_order(format!("the operation is {} here", row.stage.as_str())).into());
                }
            },
        }
        Ok(Stage::Discarded)
    }
}
