//! The metrics of this crate. Each label has a small, fixed set of values.

use gateway_domain::policy::{Decision, Moment, Outcome};
use gateway_engine::ports::ActivationKind;
use metrics::{counter, histogram};
use std::time::Duration;

/// Each counter's name and description.
pub const DESCRIPTIONS: &[(&str, &str)] = &[
    (EVALUATIONS, "Policy evaluations, by moment and decision; those with a fault count as `fault`"),
    (FAULTS, "Policy evaluations without a verdict, by kind of fault"),
    (ACTIVATIONS, "Policy bundles that became the active one, by kind"),
    (REFUSALS, "Policy files that were refused, by kind"),
    (SHADOW, "Evaluations of the candidate bundle, by how the result compares with the active bundle's"),
];

const EVALUATIONS: &str = "operation_gateway_policy_evaluations_total";
const FAULTS: &str = "operation_gateway_policy_faults_total";
const ACTIVATIONS: &str = "operation_gateway_policy_activations_total";
const REFUSALS: &str = "operation_gateway_policy_refusals_total";
const SHADOW: &str = "operation_gateway_policy_shadow_total";

/// The histogram of this crate.
pub const HISTOGRAMS: &[(&str, &str)] =
    &[(DURATION, "Time of a policy evaluation, with waiting for a worker, by moment")];

const DURATION: &str = "operation_gateway_policy_evaluation_duration_seconds";

pub(crate) fn count_evaluation(moment: Moment, outcome: &Outcome, elapsed: Duration) {
    let moment = moment.as_str();
    histogram!(DURATION, "moment" => moment).record(elapsed);
    let decision = match (&outcome.fault, outcome.decision) {
        (Some(_), _) => "fault",
        (None, Decision::Allow) => "allow",
        (None, Decision::Deny) => "deny",
    };
    counter!(EVALUATIONS, "moment" => moment, "decision" => decision).increment(1);
    if let Some(fault) = &outcome.fault {
        counter!(FAULTS, "kind" => fault.kind.as_str()).increment(1);
    }
}

pub(crate) fn count_activation(kind: ActivationKind) {
    counter!(ACTIVATIONS, "kind" => kind.as_str()).increment(1);
}

pub(crate) fn start_refusals(offer: &'static str) {
    counter!(REFUSALS, "offer" => offer).increment(0);
}

pub(crate) fn count_refusal(offer: &'static str) {
    counter!(REFUSALS, "offer" => offer).increment(1);
}

pub(crate) fn count_shadow(result: &'static str) {
    counter!(SHADOW, "result" => result).increment(1);
}
