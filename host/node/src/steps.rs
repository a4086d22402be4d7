//! The steps around the ceremony: receipt, promotion, publication, and giving up.

use crate::call::{Call, CommitEpoch, Publication, content};
use crate::chain::Chain;
use crate::error::{Code, NodeError, Rejection, Stop, answer};
use crate::gate::{self, Standing, out_of_order};
use crate::generations::Generations;
use crate::node::{Node, NodeConfig};
use crate::part::target;
use crate::row::{self, Stage, View};
use crate::signing::check_result;
use crate::vault;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::OperationType;
use gateway_domain::operation::{EffectStep, NodeReceipt};
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

    /// Forgets what the operation staged, for good: an operation never heard of is refused from now on.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::StepOutOfOrder`] once its generation is in force,
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
        let transition_hash = self.database.write(step).await??;
        Ok(self.receipt(transition_hash))
    }
}

/// What a step is to do.
enum Body {
    Receipt,
    CommitEpoch(CommitEpoch),
    Publish(Publication),
    Discard,
}

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
    type Output = Result<Hex32, NodeError>;

    async fn apply(&self, conn: &mut SqliteConnection, (): &mut ()) -> Result<Self::Output, sqlx::Error> {
        answer(self.run(conn).await)
    }
}

impl Step {
    async fn run(&self, conn: &mut SqliteConnection) -> Result<Hex32, Stop> {
        let effect = self.call.effect;
        let view = View::load(conn, effect, None).await?;
        if let Some(answer) = &view.answer {
            return Ok(answer.repeat(effect, self.said)?);
        }
        let (stage, head) = match &self.body {
            Body::Receipt => self.receipt(view)?,
            Body::CommitEpoch(commit) => self.commit_epoch(conn, view, commit).await?,
            Body::Publish(publication) => self.publish(conn, view, publication).await?,
            Body::Discard => self.discard(conn, view).await?,
        };
        row::advance_by(conn, effect, self.said, stage, head).await?;
        Ok(head)
    }

    fn receipt(&self, view: View) -> Result<(Stage, Hex32), Stop> {
        let standing = gate::known(view, &self.call, EffectStep::PolicyReceipt)?;
        gate::in_order(&self.call, &standing, self.chain.after_admission()?, &[Stage::Admitted])?;
        gate::in_force(&self.config, &standing)?;
        gate::check_fence(&standing.statement)?;
        Ok((Stage::Receipted, self.chain.after_receipt()?))
    }

    async fn commit_epoch(
        &self,
        conn: &mut SqliteConnection,
        view: View,
        commit: &CommitEpoch,
    ) -> Result<(Stage, Hex32), Stop> {
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
            return Ok((Stage::Committed, self.chain.after_commit_epoch(commit.attempt)?));
        }
        gate::in_order(&self.call, &standing, expected, &[Stage::Executed, Stage::Committed])?;
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
        }
        Ok((Stage::Committed, self.chain.after_commit_epoch(commit.attempt)?))
    }

    async fn publish(
        &self,
        conn: &mut SqliteConnection,
        view: View,
        publication: &Publication,
    ) -> Result<(Stage, Hex32), Stop> {
        let standing = gate::known(view, &self.call, EffectStep::Publish)?;
        let decision = &standing.statement.decision;
        let attempt = publication.attempt;
        let previous = match decision.operation_type {
            OperationType::Sign => {
                let previous = self.chain.after_execute(attempt)?;
                // A node that was not among the signers goes on from the receipt, on the strength of the signature.
                gate::in_order(&self.call, &standing, previous, &[Stage::Receipted, Stage::Executed])?;
                self.check_signature(conn, &standing, publication).await?;
                previous
            }
            OperationType::KeyCreate
            | OperationType::Refresh
            | OperationType::Reshare
            | OperationType::Rotate
            | OperationType::Recover => {
                let previous = self.chain.after_commit_epoch(attempt)?;
                gate::in_order(&self.call, &standing, previous, &[Stage::Committed])?;
                // A rotated key signs until its successor does. It may still have to be swept: its shares are then out
                // of force, not gone.
                if decision.operation_type == OperationType::Rotate {
                    vault::retire(conn, decision.key_id, decision.epoch_root).await?;
                } else {
                    vault::erase_retired(conn, decision.key_id, decision.epoch_root).await?;
                }
                previous
            }
        };
        Ok((Stage::Published, self.chain.after_publish(previous)?))
    }

    async fn check_signature(
        &self,
        conn: &mut SqliteConnection,
        standing: &Standing,
        publication: &Publication,
    ) -> Result<(), Stop> {
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
        Ok(check_result(decision, &keys, publication.signature.as_ref())?)
    }

    async fn discard(&self, conn: &mut SqliteConnection, view: View) -> Result<(Stage, Hex32), Stop> {
        if self.call.effect.step != EffectStep::Discard
            || self.call.previous != self.chain.after_admission()?
        {
            return Err(out_of_order("the step follows another transition").into());
        }
        let head = self.chain.after_discard()?;
        match view.row {
            None => row::insert(conn, &self.chain, Stage::Discarded, head, None).await?,
            Some(row) if row.admission_hash != self.call.admission_hash => {
                return Err(gate::other_decision().into());
            }
            Some(row) => match row.stage {
                Stage::Admitted | Stage::Receipted | Stage::Executed | Stage::Discarded => {
                    vault::forget(conn, self.chain.operation_id).await?;
                }
                Stage::Committed | Stage::Published => {
                    return Err(out_of_order(format!("the operation is {} here", row.stage.as_str())).into());
                }
            },
        }
        Ok((Stage::Discarded, head))
    }
}
