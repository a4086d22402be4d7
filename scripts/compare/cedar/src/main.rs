//! The payments of a Cedar bundle's vectors, evaluated by the engine of `policy-guest/cedar`: in process, and as the bundle's component
//! in an instance that lives for one evaluation.
//!
//! ```sh
//! cargo run --release --locked --manifest-path scripts/compare/Cargo.toml -p compare-cedar -- cedar-example
//! ```
//!
//! The same Rust code runs on both sides, so the difference is the component: its instructions, its memory, and what crosses its border.
//! In process the request is already in the form of the SDK, and nothing is recorded.

#[path = "../../src/measure.rs"]
mod measure;
#[path = "../../../../host/policy/benches/native/request.rs"]
mod request;

use gateway_domain::intent::Intent;
use gateway_domain::policy::{Decision, Facts, Outcome, Request};
use gateway_policy::{Evaluator, PolicyEngine, testing};
use gateway_policy_sdk as sdk;
use measure::{Column, in_turns};
use std::collections::BTreeMap;
use std::error::Error;

/// Measures a bundle of the repository. The engine reads the files of one bundle in a process.
fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).ok_or("name a bundle of Cedar below `bundles`")?;
    let bundle = testing::verify(testing::committed_bundle(&name), &testing::committed_trust())?;
    let texts: Vec<_> = bundle.data()?.into_iter().map(|(file, value)| (file, value.to_string())).collect();
    let texts: Vec<_> = texts.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
    let data = sdk::testing::data(&texts);
    cedar_guest::prepare(&data)?;
    let evaluator = Evaluator::link(&PolicyEngine::new()?, &bundle)?;
    for (file, vector) in bundle.vectors()? {
        if !matches!(vector.input.intent, Intent::Payment(_)) {
            continue;
        }
        let (request, facts) = (vector.request(&file)?, evaluator.facts_of(&file, &vector)?);
        println!("== {name}: {}", vector.name);
        let documents: Vec<_> =
            vector.documents.iter().map(|(name, content)| (name.as_str(), content.to_string())).collect();
        let documents: Vec<_> = documents.iter().map(|(name, text)| (*name, text.as_str())).collect();
        measure(&evaluator, &request, &facts, (&data, &sdk::testing::data(&documents)))?;
    }
    Ok(())
}

fn measure(
    evaluator: &Evaluator,
    request: &Request<'_>,
    facts: &Facts,
    (data, documents): (&dyn sdk::Data, &dyn sdk::Data),
) -> Result<(), Box<dyn Error>> {
    let outcome = evaluator.evaluate(request, facts, u64::MAX);
    let (prepared, known) = (request::of(request)?, known(&outcome));
    let in_process = || cedar_guest::evaluate(&prepared, &known, data, documents);
    let answer = in_process();
    let codes =
        |statements: &[sdk::Statement]| statements.iter().map(|one| one.code.clone()).collect::<Vec<_>>();
    let same = (answer.decision == sdk::Decision::Allow) == (outcome.decision == Decision::Allow)
        && codes(&answer.reasons) == outcome.reasons.iter().map(|one| one.code.clone()).collect::<Vec<_>>();
    if !same {
        return Err("the engine in process decides otherwise than the component".into());
    }
    println!("{} fuel, {}", outcome.fuel_used, codes(&answer.reasons).join(" "));
    in_turns(&mut [
        Column::new("cedar-policy in process", || Ok(drop(in_process()))),
        Column::new("as a component", || Ok(drop(evaluator.evaluate_raw(request, facts, u64::MAX)))),
        Column::new("with its record", || Ok(drop(evaluator.evaluate(request, facts, u64::MAX)))),
    ])
}

/// The facts that the evaluation read, which the host computes some of.
fn known(outcome: &Outcome) -> BTreeMap<String, String> {
    let read = outcome.facts.iter();
    read.filter_map(|fact| Some((fact.name.clone(), fact.value.clone()?))).collect()
}
