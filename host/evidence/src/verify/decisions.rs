//! The policy: each evaluation was of this question and gave this answer, and a bundle at hand gives it again.

use super::Rerun;
use super::report::{Findings, Report};
use super::story::Story;
use crate::roots::Roots;
use gateway_domain::operation::{Evaluation, evaluations};

pub(crate) fn check(story: &Story, roots: &Roots, rerun: Option<&dyn Rerun>, report: &mut Report) {
    let found = evaluations(&story.events);
    let mut findings = Findings::default();
    for evaluation in &found {
        one(evaluation, roots, &mut findings);
    }
    report.add(
        "policy decisions",
        findings,
        format!("{} have the digests of their questions and answers", found.len()),
    );
    match rerun {
        None => report.open("policy run again", "no bundle was given"),
        Some(rerun) => again(&found, rerun, report),
    }
}

fn at(evaluation: &Evaluation) -> String {
    format!("/events/{}/event/change/policy", evaluation.seq.saturating_sub(1))
}

fn one(evaluation: &Evaluation, roots: &Roots, findings: &mut Findings) {
    let (at, outcome) = (at(evaluation), &evaluation.outcome);
    match evaluation.input.request().digest() {
        Ok(digest) => {
            findings.same(
                &format!("{at}/input_hash"),
                "the digest of the question",
                &outcome.input_hash,
                &digest,
            );
        }
        Err(error) => findings.add(&at, error.to_string()),
    }
    let output = outcome.output_digest();
    findings.same(&format!("{at}/output_hash"), "the digest of the answer", &outcome.output_hash, &output);
    if !roots.bundles.is_empty() && !roots.bundles.contains(&outcome.bundle_hash) {
        findings.add(
            format!("{at}/bundle_hash"),
            format!("bundle `{}` is not among the roots", outcome.bundle_hash),
        );
    }
}

fn again(found: &[Evaluation], rerun: &dyn Rerun, report: &mut Report) {
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
    report.add("policy run again", findings, format!("{n_run} gave the same answer with the same fuel"));
    if !not_run.is_empty() {
        report.open("policy not run again", not_run.join("; "));
    }
}
