//! Checks each policy evaluation: the digests of its input and output, its facts, and with a bundle its result.

use super::operation::Replayed;
use super::{EvidenceReader, RerunPolicy};
use crate::report::{Findings, Report};
use crate::roots::Roots;
use gateway_domain::operation::{Evaluation, evaluations};
use std::collections::BTreeSet;

pub(crate) fn check(replayed: &Replayed, reader: &EvidenceReader<'_>, report: &mut Report) {
    let found = evaluations(&replayed.events);
    let mut findings = Findings::default();
    for evaluation in &found {
        check_evaluation(evaluation, reader.roots, &mut findings);
    }
    let note = if reader.rerun.is_some() { "" } else { "; without `--bundle` no policy was run again" };
    let seen = format!("{} match the digests of their inputs and outputs{note}", found.len());
    report.add("policy decisions", findings, seen);
    check_facts(&found, reader.roots, report);
    if let Some(rerun) = reader.rerun {
        rerun_policies(&found, rerun, report);
    }
}

/// Compares the facts that the policy read with those in the roots. Facts that the roots do not list are not checked.
fn check_facts(found: &[Evaluation], roots: &Roots, report: &mut Report) {
    const NAME: &str = "policy facts";
    let (mut findings, mut n_known, mut unknown) = (Findings::default(), 0_usize, BTreeSet::new());
    for evaluation in found {
        for (index, fact) in evaluation.outcome.facts.iter().enumerate() {
            match (roots.facts.get(&fact.name), &fact.value) {
                (Some(known), Some(value)) if known.contains(value) => n_known = n_known.saturating_add(1),
                (Some(_), _) => {
                    findings.add(
                        format!("{}/facts/{index}", at(evaluation)),
                        format!("`{fact}` is not a value that the roots allow"),
                    );
                }
                (None, _) => _ = unknown.insert(fact.name.as_str()),
            }
        }
    }
    if n_known > 0 || !findings.is_empty() {
        report.add(NAME, findings, format!("{n_known} have a value that the roots allow"));
    }
    if !unknown.is_empty() {
        let names = unknown.into_iter().collect::<Vec<_>>().join("`, `");
        report.not_checked(
            NAME,
            format!("`{names}` are claimed by the gateway alone: the roots do not list them"),
        );
    }
}

/// The JSON pointer to the evaluation in the document.
fn at(evaluation: &Evaluation) -> String {
    format!("/events/{}/event/change/policy", evaluation.seq.saturating_sub(1))
}

fn check_evaluation(evaluation: &Evaluation, roots: &Roots, findings: &mut Findings) {
    let (at, outcome) = (at(evaluation), &evaluation.outcome);
    match evaluation.input.request().digest() {
        Ok(digest) => {
            findings.same(
                &format!("{at}/input_hash"),
                "the digest of the policy input",
                &outcome.input_hash,
                &digest,
            );
        }
        Err(error) => findings.add(&at, error.to_string()),
    }
    let output = outcome.output_digest();
    findings.same(
        &format!("{at}/output_hash"),
        "the digest of the policy output",
        &outcome.output_hash,
        &output,
    );
    if !roots.bundles.is_empty() && !roots.bundles.contains(&outcome.bundle_hash) {
        findings.add(
            format!("{at}/bundle_hash"),
            format!("the roots do not list the bundle `{}`", outcome.bundle_hash),
        );
    }
}

fn rerun_policies(found: &[Evaluation], rerun: &dyn RerunPolicy, report: &mut Report) {
    let (mut findings, mut not_run) = (Findings::default(), Vec::new());
    for evaluation in found {
        match rerun.differences(evaluation) {
            Ok(differences) => {
                for difference in differences {
                    findings.add(at(evaluation), difference);
                }
            }
            Err(why) => not_run.push(format!("event {}: {why}", evaluation.seq)),
        }
    }
    let n_run = found.len().saturating_sub(not_run.len());
    if n_run > 0 {
        report.add("policy run again", findings, format!("{n_run} gave the same answer with the same fuel"));
    }
    if !not_run.is_empty() {
        report.not_checked("policy not run again", not_run.join("; "));
    }
}
