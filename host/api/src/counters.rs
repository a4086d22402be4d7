//! Metrics of the HTTP layer. No label value comes from a request, so that callers cannot create new time series.

use crate::wire::readiness::ReadinessView;
use gateway_engine::ports::PolicyHealth;
use metrics::counter;

/// The counters of this crate, each with its description.
pub const DESCRIPTIONS: &[(&str, &str)] = &[(
    REFUSED,
    "Requests of callers that were not authenticated, lacked a scope or came from another site, by reason",
)];

const REFUSED: &str = "operation_gateway_callers_refused_total";
const ACTIVE: &str = "operation_gateway_policy_active_bundle_info";
const EVALUATES: &str = "operation_gateway_policy_judges";
const READY: &str = "operation_gateway_ready";
const CHECK: &str = "operation_gateway_check_ok";
const APPROVERS: &str = "operation_gateway_approvers_verifiable";

/// `reason` comes from a fixed list.
pub(crate) fn count_refusal(reason: &'static str) {
    counter!(REFUSED, "reason" => reason).increment(1);
}

/// The gauge that shows whether approvals can be verified.
pub(crate) fn approvers_gauge(can_verify: bool) -> String {
    let can_verify = u8::from(can_verify);
    format!(
        "# HELP {APPROVERS} Whether approvals can be verified: 0 while the registry of approvers cannot be read\n\
         # TYPE {APPROVERS} gauge\n{APPROVERS} {can_verify}\n"
    )
}

/// The gauges of readiness.
pub(crate) fn check_gauges(readiness: &ReadinessView) -> String {
    let gauge = |(check, is_ok)| format!("{CHECK}{{check=\"{check}\"}} {}\n", u8::from(is_ok));
    let checks: String = readiness.checks().into_iter().map(gauge).collect();
    let is_ready = u8::from(readiness.is_ready());
    format!(
        "# HELP {READY} Whether all checks of readiness pass\n# TYPE {READY} gauge\n{READY} {is_ready}\n\
         # HELP {CHECK} Whether a check of readiness passes, by check\n# TYPE {CHECK} gauge\n{checks}"
    )
}

/// The gauges of the policy. Rendered at each scrape, so that only the active bundle's hash is a label value.
pub(crate) fn policy_gauges(health: &PolicyHealth) -> String {
    let evaluates = u8::from(health.fault.is_none());
    let active = health.bundle_hash.map(|hash| format!("{ACTIVE}{{bundle_hash=\"{hash}\"}} 1\n"));
    format!(
        "# HELP {EVALUATES} Whether the active bundle can be evaluated\n# TYPE {EVALUATES} gauge\n{EVALUATES} {evaluates}\n\
         # HELP {ACTIVE} The active policy bundle\n# TYPE {ACTIVE} gauge\n{}",
        active.unwrap_or_default()
    )
}
