//! The checks of a call against the stored operation: order, validity of the decision, and the key's generation.

use crate::admission::policy::{Held, check_facts};
use crate::admission::verify::{check_named_key, verify};
use crate::call::{Call, Subject};
use crate::error::{
    Code, NodeError, NodeRejection, cannot_follow, discarded, epoch_conflict, expired, other_decision,
    other_transition, out_of_order,
};
use crate::node::Node;
use crate::settings::NodeConfig;
use crate::store::operation::{AdmittedRequest, KeyState, Row, View};
use crate::store::vault::Generation;
use gateway_domain::admission::{AdmissionDecision, Target};
use gateway_domain::ids::Hex32;
use gateway_domain::intent::Intent;
use gateway_domain::operation::EffectStep;
use gateway_domain::roster::ParticipantIndex;
use gateway_sqlite::Connection;

/// An operation that was admitted here and not discarded, with its key.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) last_step: EffectStep,
    pub(crate) head: Hex32,
    pub(crate) statement: AdmittedRequest,
    pub(crate) key: KeyState,
}

/// Finds the operation of a call. Refuses if the effect is for another step than `step`, if the operation was not admitted
/// here by the decision that the call names, or if it was discarded.
pub(crate) fn find_admitted(view: View, call: &Call, step: EffectStep) -> Result<Admitted, NodeRejection> {
    let View { row, key, .. } = view;
    if call.effect.step != step {
        return Err(out_of_order("the effect is for another step"));
    }
    let Some(Row { admission_hash, last_step, head, statement }) = row else {
        return Err(out_of_order("the operation is not admitted on this node"));
    };
    if admission_hash != call.admission_hash {
        return Err(other_decision());
    }
    match statement {
        Some(statement) if last_step != EffectStep::Discard => {
            if call.subject != Subject::new(&statement.decision, call.subject.profile) {
                return Err(other_decision());
            }
            Ok(Admitted { last_step, head, statement, key })
        }
        Some(_) | None => Err(discarded()),
    }
}

/// Checks that the operation's last step is one of these, and that the call follows the expected transition.
pub(crate) fn check_order(
    call: &Call,
    admitted: &Admitted,
    expected: Hex32,
    last_steps: &[EffectStep],
) -> Result<(), NodeRejection> {
    if !last_steps.contains(&admitted.last_step) {
        return Err(cannot_follow(admitted.last_step));
    }
    if call.previous == expected { Ok(()) } else { Err(other_transition()) }
}

/// Checks that the head of this node's own chain is the expected one.
pub(crate) fn check_head(admitted: &Admitted, head: Hex32) -> Result<(), NodeRejection> {
    if admitted.head == head { Ok(()) } else { Err(other_transition()) }
}

/// Checks that the decision is valid now and that the key is in the admitted generation. Returns the same as
/// [`check_generation`].
pub(crate) fn check_validity<'s>(
    config: &NodeConfig,
    admitted: &'s Admitted,
) -> Result<Option<&'s Generation>, NodeError> {
    let (decision, now) = (&admitted.statement.decision, (config.settings.clock)());
    if now < decision.not_before_ms || now >= decision.not_after_ms {
        return Err(expired().into());
    }
    check_generation(&admitted.statement, config.participant, &admitted.key)
}

/// Makes the checks of the admission that need no policy again: see [`Node::verify_again`].
fn verify_statement<'s>(
    config: &NodeConfig,
    admitted: &'s Admitted,
) -> Result<Option<&'s Generation>, NodeError> {
    let AdmittedRequest { request, decision } = &admitted.statement;
    let verified = verify(config, request, (config.settings.clock)())?;
    if verified.decision != *decision {
        return Err(
            NodeRejection::new(Code::AdmissionRefused, "the stored decision is not the signed one").into()
        );
    }
    check_generation(&admitted.statement, config.participant, &admitted.key)
}

impl Node {
    /// Makes all checks of the admission again before the execution: the stored decision is the authority's and valid now, every
    /// approver still counts, the key is in the admitted generation and the one that they signed, the bundle is still trusted, and the policy still allows the
    /// operation with facts that agree with what the node knows. Returns the same as [`check_generation`].
    pub(crate) async fn verify_again<'s>(
        &self,
        conn: &mut Connection,
        admitted: &'s Admitted,
    ) -> Result<Option<&'s Generation>, NodeError> {
        let generation = verify_statement(&self.config, admitted)?;
        let (statement, decision) = (&admitted.statement, &admitted.statement.decision);
        let bundle = self.bundle(conn, decision.bundle_hash).await?;
        self.check_policy(&bundle, statement, None).await?;
        let decode = |held: &Generation| self.generations.keys(held.root, || held.decode(decision.key_id));
        let keys = generation.map(decode).transpose()?;
        if let Some(keys) = keys.as_deref() {
            check_named_key(&statement.request.intent, keys)?;
        }
        let held = Held::of(generation, keys.as_deref());
        check_facts(&self.config.settings, statement, held, None)?;
        Ok(generation)
    }
}

/// Checks that this node's share of the key is of the admitted generation; for a key creation, that the key does not exist.
///
/// Returns the generation. `None` for a key creation, and when the node does not hold the generation and need not.
pub(crate) fn check_generation<'h>(
    statement: &AdmittedRequest,
    me: ParticipantIndex,
    key: &'h KeyState,
) -> Result<Option<&'h Generation>, NodeError> {
    let AdmittedRequest { request, decision } = statement;
    let must_hold = match &request.intent {
        Intent::KeyCreate(_) if key.is_known => return Err(epoch_conflict("the key exists").into()),
        Intent::KeyCreate(_) => return Ok(None),
        Intent::Payment(_) | Intent::AssetAction(_) => true,
        Intent::Refresh(_) | Intent::Reshare(_) | Intent::Rotate(_) => is_holder(decision, me),
        Intent::Recover(recover) => is_holder(decision, me) && recover.recovering_participant != me,
    };
    match &key.active {
        Some(held) if is_generation(decision, held) => Ok(Some(held)),
        // A node that joins, or whose share is to be repaired, may have no share or one of an earlier epoch.
        Some(_) | None if !must_hold => Ok(None),
        Some(_) | None if key.staged == Some(decision.epoch_root) => {
            Err(NodeError::unavailable("the node has staged the admitted generation but not promoted it yet"))
        }
        None if !key.is_known => Err(NodeError::NO_SHARE),
        Some(_) | None => Err(epoch_conflict("the key is in another epoch than the admitted one").into()),
    }
}

pub(crate) fn is_generation(decision: &AdmissionDecision, held: &Generation) -> bool {
    held.epoch == decision.epoch && held.root == decision.epoch_root
}

fn is_holder(decision: &AdmissionDecision, me: ParticipantIndex) -> bool {
    decision.holders.as_ref().is_some_and(|holders| holders.as_set().contains(&me))
}

/// Checks the fence: the epoch root that the caller expects the key to have, if it named one. Called at the policy receipt and
/// at signing, not at admission.
pub(crate) fn check_fence(statement: &AdmittedRequest) -> Result<(), NodeRejection> {
    let terms = statement.request.intent.signing_terms();
    let fence = terms.and_then(|terms| terms.epoch_fence_token_hex.as_deref());
    if fence.is_some_and(|fence| fence != statement.decision.epoch_root.to_string()) {
        return Err(epoch_conflict("the key's epoch root is not the one in the caller's fence token"));
    }
    Ok(())
}

/// The generation that the operation makes.
pub(crate) fn target(decision: &AdmissionDecision) -> Result<&Target, NodeRejection> {
    decision.target.as_ref().ok_or_else(|| out_of_order("the operation makes no shares"))
}

/// Whether the operation makes shares of the key that it is on. A rotation makes those of another key.
pub(crate) fn is_same_key(decision: &AdmissionDecision) -> bool {
    decision.target.as_ref().is_some_and(|target| target.key_id == decision.key_id)
}
