//! The node's own run of the policy: at the admission, and again before the execution.

use crate::admission::approvals::{check_ages, n_required};
use crate::admission::bundles::{CLOSED, bundle_error};
use crate::admission::verify::derivation;
use crate::error::{NodeError, NodeRejection, policy_refused};
use crate::node::Node;
use crate::settings::NodeSettings;
use crate::store::operation::AdmittedRequest;
use crate::store::vault::Generation;
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::intent::Intent;
use gateway_domain::policy::document::{self, DocumentError};
use gateway_domain::policy::facts::Rules;
use gateway_domain::policy::paid::Paying;
use gateway_domain::policy::{Outcome, Paid, SignedDocument, SpendingTotals};
use gateway_domain::time::EpochMs;
use gateway_policy::{Disagreement, Known, KnownKey, RepeatError, Shares, TotalsError, TrustedBundle};
use gateway_threshold::PublicKeys;
use gateway_threshold::derive::Derivation;
use std::sync::Arc;

impl Node {
    /// Repeats the evaluation that the decision is based on, with the recorded facts, and compares the outcome with the decision.
    /// [`check_facts`] compares the facts with what the node knows. `now` is `None` at the execution.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::PolicyRefused`](crate::Code::PolicyRefused) when the bundle is not trusted now, when
    /// the policy does not allow the operation, or when its outcome is not the one of the decision; [`NodeError::Unavailable`].
    pub(crate) async fn check_policy(
        &self,
        bundle: &Arc<TrustedBundle>,
        statement: &AdmittedRequest,
        now: Option<EpochMs>,
    ) -> Result<(), NodeError> {
        self.bundles.check(bundle, self.now()).map_err(|error| bundle_error(&error))?;
        let AdmittedRequest { request, decision } = statement;
        self.bundles.documents(&request.policy.documents).map_err(|error| document_refused(&error))?;
        let asked = request.policy_request(decision.intent_hash);
        let repeated = match bundle.evaluator().repeat_inline(&asked, &request.policy) {
            Some(repeated) => repeated,
            None => self.repeat_on_thread(bundle, statement).await?,
        };
        let outcome = repeated.map_err(|error| repeat_error(&error))?;
        check_outcome(&self.config.settings, statement, &outcome, now)?;
        match now {
            Some(now) => check_ages(&self.config.settings, statement, &outcome, now),
            None => Ok(()),
        }
    }

    async fn repeat_on_thread(
        &self,
        bundle: &Arc<TrustedBundle>,
        statement: &AdmittedRequest,
    ) -> Result<Result<Outcome, RepeatError>, NodeError> {
        let permit = Arc::clone(&self.heavy).acquire_owned().await.map_err(|_| CLOSED)?;
        let (bundle, request) = (Arc::clone(bundle), statement.request.clone());
        let intent_hash = statement.decision.intent_hash;
        let repeating = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            bundle.evaluator().repeat(&request.policy_request(intent_hash), &request.policy)
        });
        repeating.await.map_err(|_| CLOSED)
    }
}

/// If this host could not evaluate, the call can be repeated. Otherwise the record is false.
fn repeat_error(error: &RepeatError) -> NodeError {
    match error {
        RepeatError::Host(_) => NodeError::unavailable("the node's policy engine cannot evaluate now"),
        RepeatError::TooManyFacts
        | RepeatError::Document(_)
        | RepeatError::OtherFacts
        | RepeatError::OtherFuel { .. } => policy_refused(error.to_string()).into(),
    }
}

/// Checks that the node's own run of the policy allows the operation, and that its outcome is the one of the decision.
fn check_outcome(
    settings: &NodeSettings,
    statement: &AdmittedRequest,
    outcome: &Outcome,
    now: Option<EpochMs>,
) -> Result<(), NodeRejection> {
    known(settings, statement, None, None, Vec::new(), now).check_outcome(outcome).map_err(disagreement)?;
    let decision = &statement.decision;
    let is_decided = outcome.bundle_hash == decision.bundle_hash
        && outcome.input_hash == decision.policy_input_hash
        && outcome.output_hash == decision.policy_output_hash;
    if !is_decided {
        return Err(policy_refused("the policy's outcome on this node is not the one in the decision"));
    }
    Ok(())
}

pub(crate) fn document_refused(error: &DocumentError) -> NodeRejection {
    policy_refused(error.to_string())
}

fn disagreement(error: Disagreement) -> NodeRejection {
    policy_refused(error.to_string())
}

/// Checks the facts that the policy read. `held` are the public keys of the node's share, if it holds one of the decision's
/// generation. `now` is `None` at the execution. Returns what the proofs of earlier payments say, and the documents, whose signatures
/// [`Node::check_policy`] has verified.
pub(crate) fn check_facts(
    settings: &NodeSettings,
    statement: &AdmittedRequest,
    held: Option<Held<'_>>,
    now: Option<EpochMs>,
) -> Result<Proven, NodeRejection> {
    let paid = paid(settings, statement, held)?;
    let policy = &statement.request.policy;
    let documents = document::parse_all(&policy.documents).map_err(|error| document_refused(&error))?;
    let known = known(settings, statement, held, paid, documents.clone(), now);
    known.check_facts(&policy.facts).map_err(disagreement)?;
    Ok(Proven { paid, documents })
}

/// The generation of a key that the node holds a share of.
#[derive(Clone, Copy)]
pub(crate) struct Held<'a> {
    pub(crate) keys: &'a PublicKeys,
    /// When the node made its share, and when it began to use it.
    used: Option<(EpochMs, EpochMs)>,
}

impl<'a> Held<'a> {
    /// The node's generation, with its decoded public keys.
    pub(crate) fn of(generation: Option<&Generation>, keys: Option<&'a PublicKeys>) -> Option<Self> {
        Some(Self { keys: keys?, used: generation?.used })
    }
}

/// What the facts of an evaluation that came with signed statements rest on.
pub(crate) struct Proven {
    pub(crate) paid: Option<Paid>,
    pub(crate) documents: Vec<Arc<SignedDocument>>,
}

/// Verifies the proofs of earlier payments with the key of the node's own share.
fn paid(
    settings: &NodeSettings,
    AdmittedRequest { request, decision }: &AdmittedRequest,
    held: Option<Held<'_>>,
) -> Result<Option<Paid>, NodeRejection> {
    let signing_key = |intent: &Intent, _: &AdmissionDecision| {
        let keys = held?.keys;
        let payments = || Derivation::of(keys)?.payments(decision.key_id.0.as_bytes());
        let derived = derivation(intent, keys, payments).ok()??;
        Some(format!("{}:{}", keys.profile(), derived.public_key_hex))
    };
    let paying = Paying {
        operation_id: decision.operation_id,
        key_id: decision.key_id,
        intent: &request.intent,
        authorities: &settings.authorities,
        now: (settings.clock)(),
        signing_key: &signing_key,
    };
    paying.verify(&request.policy.proven_by).map_err(|error| policy_refused(error.to_string()))
}

fn known<'a>(
    settings: &NodeSettings,
    AdmittedRequest { request, decision }: &'a AdmittedRequest,
    held: Option<Held<'a>>,
    paid: Option<Paid>,
    documents: Vec<Arc<SignedDocument>>,
    now: Option<EpochMs>,
) -> Known<'a> {
    let required_approvals = n_required(settings, decision.operation_type);
    Known {
        rules: Rules { required_approvals, ..settings.rules.clone() },
        key: known_key(decision, held),
        intent: &request.intent,
        submitter: &request.submitter,
        approvals: &request.approvals,
        paid,
        documents,
        now,
    }
}

/// The key of a decision whose generation was checked. `held` are the public keys of the node's share, if it holds one.
fn known_key<'a>(decision: &'a AdmissionDecision, held: Option<Held<'a>>) -> Option<KnownKey<'a>> {
    let epoch = &decision.epoch;
    match (held, &decision.holders) {
        (Some(Held { keys, used }), _) => {
            let shares = Shares { profile: keys.profile().name(), decided: used };
            let holders = keys.verifying_shares().keys().copied();
            Some(KnownKey::new(epoch, keys.threshold(), holders, Some(shares)))
        }
        (None, Some(holders)) => {
            let holders = holders.iter().map(|holder| holder.0);
            Some(KnownKey::new(epoch, decision.threshold.0, holders, None))
        }
        (None, None) => None,
    }
}

/// Checks a payment against what this node itself admitted. See [`Known::check_totals`].
pub(crate) fn check_spending(
    settings: &NodeSettings,
    bundle: &TrustedBundle,
    statement: &AdmittedRequest,
    held: Option<Held<'_>>,
    Proven { paid, documents }: Proven,
    totals: &SpendingTotals,
    now: EpochMs,
) -> Result<(), NodeError> {
    let AdmittedRequest { request, decision } = statement;
    let asked = request.policy_request(decision.intent_hash);
    let known = known(settings, statement, held, paid, documents, Some(now));
    known.check_totals(bundle.evaluator(), &asked, &request.policy, totals).map_err(|error| match error {
        TotalsError::Host(_) => NodeError::unavailable("the node's policy engine cannot evaluate now"),
        TotalsError::Denied(why) => disagreement(why).into(),
    })
}
