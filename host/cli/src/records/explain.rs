//! `policy explain`: a recorded decision in words.

use super::arguments::{Explain, RecordsError};
use super::bundle::DecidingBundles;
use super::export;
use super::replay::select;
use gateway_domain::policy::facts::classes;
use gateway_domain::policy::{FactRead, Group, Statement};
use gateway_policy::Evaluator;
use gateway_service::output::{self, Lines};
use gateway_store::{Decisions, RecordedDecision};
use std::path::Path;
use std::process::ExitCode;

pub(super) async fn run(
    decisions: &Decisions,
    policy_bundle: &Path,
    Explain { selected }: &Explain,
) -> Result<ExitCode, RecordsError> {
    let mut bundles = DecidingBundles::new(decisions, policy_bundle, selected.bundle.as_deref())?;
    for decision in select(decisions, selected.id).await? {
        let evaluator = bundles.find(decision.outcome.bundle_hash).await?;
        output::print(&lines(&decision, evaluator))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `evaluator`: of the bundle that decided, if it is available.
fn lines(decision: &RecordedDecision, evaluator: Option<&Evaluator>) -> Lines {
    let RecordedDecision { input, outcome, asked, .. } = decision;
    let mut lines = Lines::new();
    lines.add(format_args!("{} {}: {}", outcome.decision.as_str(), decision.id(), export::title(decision)));
    let mut add = |name: &str, value: &str| lines.add(format_args!("  {name:<12} {value}"));
    add("at_ms", &decision.at_ms.0.to_string());
    add("request", asked.request_id.as_deref().unwrap_or("(not recorded)"));
    if let Some(key) = &asked.idempotency_key {
        add("claimed", key);
    }
    add("submitted by", &format!("{} ({})", input.submitter.subject_id, input.submitter.client_id));
    add("tenant", &input.tenant.0);
    add("key", &input.key_ref.0);
    for (name, statements) in [("reason", &outcome.reasons), ("obligation", &outcome.obligations)] {
        for statement in statements {
            add(name, &explained(statement, evaluator));
        }
    }
    let quorum = &outcome.quorum;
    let counted = format!("{} of {} {}", quorum.n_people(), quorum.required, quorum.subjects.join(", "));
    add("approvals", counted.trim_end());
    for Group { name, needed, have } in &quorum.groups {
        add("group", format!("{name}: {} of {needed} {}", have.len(), have.join(", ")).trim_end());
    }
    for FactRead { name, value } in &outcome.facts {
        let class = classes(name).first().map_or("unknown", |class| class.as_str());
        add("fact", &format!("{name} = {} ({class})", value.as_deref().unwrap_or("(none)")));
    }
    add("bundle", &format!("{} {}", outcome.bundle_id, outcome.bundle_hash));
    add("fuel", &outcome.fuel_used.to_string());
    if !decision.is_intact {
        add("record", "DAMAGED: it does not match the hash that it was written with");
    }
    lines
}

/// The statement with what the manifest says of it.
fn explained(statement: &Statement, evaluator: Option<&Evaluator>) -> String {
    let declared = evaluator.and_then(|evaluator| evaluator.reason(&statement.code));
    let words = declared.into_iter().flat_map(|declared| [declared.text.as_str(), declared.remedy.as_str()]);
    let words: Vec<_> = words.filter(|words| !words.is_empty()).collect();
    if words.is_empty() { statement.to_string() } else { format!("{statement} ({})", words.join(" ")) }
}
