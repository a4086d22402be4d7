//! `policy replay`: evaluates a past decision again, and compares.

use super::arguments::{RecordsError, Replay, SelectedId};
use super::bundle::DecidingBundles;
use super::export;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::compare::{self, Difference};
use gateway_domain::policy::{Facts, Input, Outcome};
use gateway_policy::Evaluator;
use gateway_service::output::{self, EXIT_FAILED, EXIT_UNCHECKED, Lines};
use gateway_store::{Decisions, RecordedDecision};
use std::path::Path;
use std::process::ExitCode;

/// The result of one replay.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    /// The decision, the output bytes and the fuel are the same.
    Same,
    /// The differences from the record; never empty.
    Differs(Vec<Difference>),
    /// The reason why nothing was evaluated.
    Unchecked(String),
}

pub(super) async fn run(
    decisions: &Decisions,
    policy_bundle: &Path,
    Replay { selected }: &Replay,
) -> Result<ExitCode, RecordsError> {
    let mut bundles = DecidingBundles::new(decisions, policy_bundle, selected.bundle.as_deref())?;
    let (mut differs, mut unchecked) = (false, false);
    for decision in select(decisions, selected.id).await? {
        let found = replay(&mut bundles, &decision).await?;
        differs |= matches!(found, Found::Differs(_));
        unchecked |= matches!(found, Found::Unchecked(_));
        output::print(&lines(&decision, &found))?;
    }
    Ok(match (differs, unchecked) {
        (true, _) => ExitCode::from(EXIT_FAILED),
        (false, true) => ExitCode::from(EXIT_UNCHECKED),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// The selected decisions, or an error if there are none.
pub(super) async fn select(
    decisions: &Decisions,
    id: SelectedId,
) -> Result<Vec<RecordedDecision>, RecordsError> {
    let found = match id {
        SelectedId::Operation(id) => decisions.of_operation(id).await?,
        SelectedId::Decision(id) => decisions.find(id).await?.into_iter().collect(),
    };
    if found.is_empty() { Err(RecordsError::NoSuchDecision) } else { Ok(found) }
}

/// Evaluates a decision again, and compares.
async fn replay(
    bundles: &mut DecidingBundles<'_>,
    decision: &RecordedDecision,
) -> Result<Found, RecordsError> {
    let outcome = &decision.outcome;
    let found = match not_repeatable(outcome) {
        Some(why) => Err(why),
        None => match bundles.find(outcome.bundle_hash).await? {
            Some(evaluator) => Ok(differences(evaluator, &decision.input, outcome)),
            None => Err(format!("bundle {} is not available", outcome.bundle_hash)),
        },
    };
    let damage = damage(decision);
    Ok(match found {
        Err(why) if damage.is_empty() => Found::Unchecked(why),
        Err(_) => Found::Differs(damage),
        Ok(found) if damage.is_empty() && found.is_empty() => Found::Same,
        Ok(found) => Found::Differs([damage, found].concat()),
    })
}

/// Damage of the record: the hashes in it that do not match.
fn damage(decision: &RecordedDecision) -> Vec<Difference> {
    let mut found = Vec::new();
    let digest = decision.input.request().digest().unwrap_or(Hex32::ZERO);
    if digest != decision.outcome.input_hash {
        let (recorded, again) = (decision.outcome.input_hash.to_string(), digest.to_string());
        found.push(Difference { field: "input", recorded, again });
    }
    if !decision.is_intact {
        let (recorded, again) = ("the hash it was written with".to_owned(), "another".to_owned());
        found.push(Difference { field: "record", recorded, again });
    }
    found
}

fn lines(decision: &RecordedDecision, found: &Found) -> Lines {
    let (title, outcome) = (export::title(decision), &decision.outcome);
    let mut lines = Lines::new();
    match found {
        Found::Same => lines.add(format_args!(
            "{title}: same {} with output {} and fuel {}, by bundle {}",
            outcome.decision.as_str(),
            outcome.output_hash,
            outcome.fuel_used,
            outcome.bundle_hash
        )),
        Found::Differs(found) => {
            lines.add(format_args!("{title}: DIFFERS"));
            for Difference { field, recorded, again } in found {
                lines.add(format_args!("  {field}: recorded `{recorded}`, now `{again}`"));
            }
        }
        Found::Unchecked(why) => lines.add(format_args!("{title}: not checked: {why}")),
    }
    lines
}

/// Why an evaluation cannot be repeated: the host failed, not the bundle. `None` if it can.
pub(crate) fn not_repeatable(outcome: &Outcome) -> Option<String> {
    let fault = outcome.host_fault()?;
    Some(format!("`{}` was a failure of the host, not of the bundle", fault.kind.as_str()))
}

/// Evaluates the recorded input again with the recorded facts; returns what differs from the record.
pub(crate) fn differences(evaluator: &Evaluator, input: &Input, recorded: &Outcome) -> Vec<Difference> {
    let again = evaluator.evaluate(&input.request(), &Facts::of_outcome(recorded), evaluator.fuel_max());
    compare::differences(recorded, &again)
}
