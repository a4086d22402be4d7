//! `policy replay`: a past decision, asked again.

use super::bundle::Deciders;
use super::{EXIT_DIFFERS, EXIT_UNCHECKED, RecordsError, Which, lines, rerun};
use crate::settings::Settings;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::compare::Difference;
use gateway_store::{Decisions, Place, Recorded};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// What a re-run found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Replay {
    /// The same decision, output bytes and fuel.
    Same,
    /// What is not as it was recorded; never empty.
    Differs(Vec<Difference>),
    /// Nothing to run: why.
    Unchecked(String),
}

pub(super) async fn run(
    decisions: &Decisions,
    settings: &Settings,
    which: Which,
    given: Option<&Path>,
    out: &mut (dyn Write + Send),
) -> Result<ExitCode, RecordsError> {
    let mut deciders = Deciders::new(decisions, settings, given)?;
    let (mut differs, mut unchecked) = (false, false);
    for decision in selected(decisions, which).await? {
        let replay = again(&mut deciders, &decision).await?;
        differs |= matches!(replay, Replay::Differs(_));
        unchecked |= matches!(replay, Replay::Unchecked(_));
        print(&decision, &replay, out)?;
    }
    Ok(match (differs, unchecked) {
        (true, _) => ExitCode::from(EXIT_DIFFERS),
        (false, true) => ExitCode::from(EXIT_UNCHECKED),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// The decisions asked for; at least one.
async fn selected(decisions: &Decisions, which: Which) -> Result<Vec<Recorded>, RecordsError> {
    let found: Vec<_> = match which {
        Which::Operation { id, seq } => {
            let is_wanted = |decision: &Recorded| match (seq, decision.place) {
                (Some(wanted), Place::Event { seq, .. }) => wanted == seq,
                (_, _) => seq.is_none(),
            };
            decisions.of_operation(id).await?.into_iter().filter(is_wanted).collect()
        }
        Which::Refusal(index) => decisions.refusal(index).await?.into_iter().collect(),
        Which::Preview(index) => decisions.preview(index).await?.into_iter().collect(),
    };
    if found.is_empty() { Err(RecordsError::NoSuchDecision) } else { Ok(found) }
}

async fn again(deciders: &mut Deciders<'_>, decision: &Recorded) -> Result<Replay, RecordsError> {
    let outcome = &decision.outcome;
    let found = match rerun::unrepeatable(outcome) {
        Some(why) => Err(why),
        None => match deciders.find(outcome.bundle_hash).await? {
            Some(evaluator) => Ok(rerun::differences(evaluator, &decision.input, outcome)),
            None => Err(format!("bundle {} is not at hand", outcome.bundle_hash)),
        },
    };
    let damage = damage(decision);
    Ok(match found {
        Err(why) if damage.is_empty() => Replay::Unchecked(why),
        Err(_) => Replay::Differs(damage),
        Ok(found) if damage.is_empty() && found.is_empty() => Replay::Same,
        Ok(found) => Replay::Differs([damage, found].concat()),
    })
}

/// What is wrong with the record by itself.
fn damage(decision: &Recorded) -> Vec<Difference> {
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

fn print(decision: &Recorded, replay: &Replay, out: &mut (dyn Write + Send)) -> Result<(), RecordsError> {
    let (title, outcome) = (lines::title(decision), &decision.outcome);
    match replay {
        Replay::Same => writeln!(
            out,
            "{title}: same {} with output {} and fuel {}, by bundle {}",
            outcome.decision.as_str(),
            outcome.output_hash,
            outcome.fuel_used,
            outcome.bundle_hash
        )?,
        Replay::Differs(found) => {
            writeln!(out, "{title}: DIFFERS")?;
            for Difference { field, recorded, again } in found {
                writeln!(out, "  {field}: recorded `{recorded}`, now `{again}`")?;
            }
        }
        Replay::Unchecked(why) => writeln!(out, "{title}: not checked: {why}")?,
    }
    Ok(())
}
