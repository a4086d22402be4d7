//! Gives up an attempt at a ceremony. A node that completed it begins no other until another participant has signed that it will not
//! complete the attempt (`host/node/src/steps/attempts.rs`), so an attempt is lost only with such a receipt. Without one the operation waits: the
//! attempt may still be completed.

use crate::calls::{Calls, unavailable};
use crate::fan_out::{Answer, Answers, NodeSet};
use crate::fleet::Fleet;
use crate::node::{Nodes, RuntimeNode};
use gateway_domain::operation::{EffectId, EffectStep, Outcome};
use gateway_domain::receipt::{AttemptReceipt, ReceiptKind};
use gateway_engine::Unavailable;
use gateway_node::Call;
use std::sync::Arc;

impl<N: Nodes> Fleet<N> {
    /// Has participants of the effect's attempt discard it, until one has. `able` are those that may not have completed it.
    ///
    /// # Errors
    /// [`gateway_engine::Dependency::Runtime`] when none of them discarded it.
    pub(crate) async fn give_up(
        &self,
        calls: &Calls<'_>,
        able: &NodeSet,
        reason: String,
    ) -> Result<Outcome, Unavailable> {
        let receipts = self.discard_attempt(calls, calls.effect.id.attempt, able).await?;
        if receipts.is_empty() {
            return Err(may_be_completed(&reason));
        }
        Ok(Outcome::AttemptLost { reason, receipts })
    }

    /// The receipts of these nodes for discarding an attempt. A node that completed it gives none.
    pub(crate) async fn discard_attempt(
        &self,
        calls: &Calls<'_>,
        attempt: u32,
        nodes: &NodeSet,
    ) -> Result<Vec<AttemptReceipt>, Unavailable> {
        let effect = EffectId { step: EffectStep::Execute, attempt, ..calls.effect.id };
        let mut calls_by_node = Vec::new();
        for node in nodes {
            calls_by_node.push((*node, calls.call_of(effect, *node)?));
        }
        let discard = |node: Arc<N::Node>, call: Call| -> Answer<'_, _> {
            Box::pin(async move { node.discard_attempt(&call).await })
        };
        let enough = |answers: &Answers<_>| answers.values().any(Result::is_ok);
        let answers = self.call_all(calls_by_node, "mid-attempt-discard", enough, discard).await;
        let kind = ReceiptKind::AttemptDiscarded { attempt };
        let answers = self.verify_receipts(calls, &kind, answers, |receipt| receipt);
        Ok(answers.into_values().filter_map(Result::ok).map(AttemptReceipt::from).collect())
    }
}

/// The attempt is not given up: it may still be completed.
pub(crate) fn may_be_completed(why: &str) -> Unavailable {
    unavailable(&format!("the attempt may still be completed; {why}"))
}
