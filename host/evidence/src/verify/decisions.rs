//! Checks each policy evaluation: the digests of its input and output, its facts, and with a bundle its result.

use super::operation::Replayed;
use super::{EvidenceReader, RerunPolicy};
use crate::report::{Findings, Report};
use crate::roots::Roots;
use crate::summary::public_key;
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::intent::Intent;
use gateway_domain::operation::{Evaluation, Operation, evaluations};
use gateway_domain::policy::paid::{PREFIX, Paid, Paying};
use gateway_domain::policy::{FactRead, Outcome, document};
use gateway_domain::signature::signing_key;
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
    check_paid(&replayed.operation, &found, reader.roots, report);
    check_documents(&found, reader.roots, report);
    if let Some(rerun) = reader.rerun {
        rerun_policies(&found, rerun, report);
    }
}

/// Compares the facts that the policy read with those in the roots. Facts that the roots do not list are not checked here.
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
                (None, _) if fact.name.starts_with(PREFIX) || fact.name.starts_with(document::PREFIX) => {}
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

/// Verifies the proofs of earlier payments, and compares the facts with what they say.
fn check_paid(operation: &Operation, found: &[Evaluation], roots: &Roots, report: &mut Report) {
    const NAME: &str = "earlier payments";
    let reads = |evaluation: &&Evaluation| {
        let mut facts = evaluation.outcome.facts.iter();
        let is_stated = facts.any(|fact| fact.name.starts_with(PREFIX) && fact.value.is_some());
        is_stated || !evaluation.outcome.proven_by.is_empty()
    };
    let reading: Vec<_> = found.iter().filter(reads).collect();
    if reading.is_empty() {
        return;
    }
    let (id, key_id) = (operation.id, operation.key.key_id);
    let Some(key) = public_key(operation).or_else(|| roots.keys.get(&key_id).cloned()) else {
        report.not_checked(NAME, "neither the intent nor the roots name the public key");
        return;
    };
    // A child of the key follows from its chain code, which evidence does not have: the decision names it.
    let signing_key = |intent: &Intent, decision: &AdmissionDecision| {
        let profile = key.split_once(':')?.0;
        let child = || Some(format!("{profile}:{}", decision.derivation.as_ref()?.public_key_hex));
        signing_key(intent, key_id, &key).or_else(child)
    };
    let (mut findings, mut n_facts) = (Findings::default(), 0_usize);
    for evaluation in reading {
        let paying = Paying {
            operation_id: id,
            key_id,
            intent: &operation.intent,
            authorities: &roots.authorities,
            now: evaluation.at_ms,
            signing_key: &signing_key,
        };
        let proven = match paying.verify(&evaluation.outcome.proven_by) {
            Ok(paid) => paid.map(Paid::facts),
            Err(error) => {
                findings.add(format!("{}/proven_by", at(evaluation)), error.to_string());
                continue;
            }
        };
        for (index, fact) in evaluation.outcome.facts.iter().enumerate() {
            let (true, Some(value)) = (fact.name.starts_with(PREFIX), &fact.value) else { continue };
            n_facts = n_facts.saturating_add(1);
            if !proven.iter().flatten().any(|(name, proved)| *name == fact.name && proved == value) {
                let why = format!("`{fact}` is not what the earlier payments prove");
                findings.add(format!("{}/facts/{index}", at(evaluation)), why);
            }
        }
    }
    report.add(NAME, findings, format!("{n_facts} facts follow from decisions and signatures on them"));
}

/// Compares the facts that say which documents the policy read with the documents, and verifies the signatures of these.
fn check_documents(found: &[Evaluation], roots: &Roots, report: &mut Report) {
    const NAME: &str = "policy documents";
    let (mut findings, mut n_read) = (Findings::default(), 0_usize);
    for evaluation in found {
        n_read = n_read.saturating_add(check_read(evaluation, roots, &mut findings));
    }
    if n_read == 0 && findings.is_empty() {
        return;
    }
    report.add(NAME, findings, format!("{n_read} have the hashes that the policy read, and had not expired"));
    if roots.documents.is_empty() {
        report.not_checked(NAME, "their signatures: the roots name no keys in `documents`");
    }
}

/// Checks the documents of one evaluation. Returns how many it read.
fn check_read(evaluation: &Evaluation, roots: &Roots, findings: &mut Findings) -> usize {
    let Outcome { facts, documents, .. } = &evaluation.outcome;
    let named = |fact: &&FactRead| fact.name.starts_with(document::PREFIX) && fact.value.is_some();
    let read: Vec<_> = facts.iter().filter(named).collect();
    let at = |member: &str| format!("{}/{member}", at(evaluation));
    let signed = match document::parse_all(documents) {
        Ok(signed) => signed,
        Err(error) => {
            findings.add(at("documents"), error.to_string());
            return read.len();
        }
    };
    if signed.len() != read.len() {
        findings.add(at("documents"), "they are not those that the policy read".to_owned());
    }
    let now_ms = facts.iter().find(|fact| fact.name == "time.now_ms");
    let now_ms = now_ms.and_then(|fact| fact.value.as_deref());
    for fact in &read {
        let hash = fact.value.as_deref().unwrap_or_default();
        if !document::is_proven(&signed, &fact.name, hash, now_ms) {
            findings.add(at("facts"), format!("`{fact}` is not the hash of a document that was valid then"));
        }
    }
    for (index, one) in signed.iter().enumerate().filter(|_| !roots.documents.is_empty()) {
        if let Err(error) = one.verify(&roots.documents) {
            findings.add(at(&format!("documents/{index}")), error.to_string());
        }
    }
    read.len()
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
