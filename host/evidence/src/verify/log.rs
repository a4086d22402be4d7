//! Checks the log proof: the last event is in a signed log of all events, and `ledger_root` is that log's root right after
//! this event. With a policy of witnesses, also that a quorum of them cosigned this log.

use super::EvidenceReader;
use super::pages::{Document, hash};
use crate::report::{Findings, Report};
use crate::roots::Roots;
use gateway_domain::ids::Hex32;
use gateway_domain::log::{SignedCheckpoint, TlogProof, WitnessPolicy, leaf_hash, verify_consistency};
use serde::Deserialize;

const NAME: &str = "log";

const WITNESSES: &str = "witnesses";

/// The document's `log`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LogSection {
    index: u64,
    proof: String,
    consistency: Vec<Hex32>,
}

/// The proof of a page, verified.
struct Proven {
    checkpoint: SignedCheckpoint,
    seen: String,
}

/// Checks the proof of each page. Returns the size of each page's signed log, or `None` if its proof fails.
pub(crate) fn check(
    document: &Document,
    reader: &EvidenceReader<'_>,
    report: &mut Report,
) -> Vec<Option<u64>> {
    let (mut findings, mut proven, mut seen) = (Findings::default(), Vec::new(), String::new());
    for page in &document.pages {
        let section = page.get("log").cloned().unwrap_or_default();
        let found = match serde_json::from_value(section) {
            Ok(section) => check_inclusion(document, &section, reader.roots, &mut findings),
            Err(error) => {
                findings.add("/log", format!("is not a log proof: {error}"));
                None
            }
        };
        seen = found.as_ref().map(|found| found.seen.clone()).unwrap_or_default();
        proven.push(found.map(|found| found.checkpoint));
    }
    report.add(NAME, findings, seen);
    if let Some(policy) = reader.witnesses {
        check_witnesses(&proven, policy, report);
    }
    let size = |checkpoint: &SignedCheckpoint| checkpoint.unverified().size();
    proven.iter().map(|checkpoint| checkpoint.as_ref().map(size)).collect()
}

/// Checks that a quorum cosigned the checkpoint of each page.
fn check_witnesses(proven: &[Option<SignedCheckpoint>], policy: &WitnessPolicy, report: &mut Report) {
    let (mut findings, mut seen) = (Findings::default(), String::new());
    for checkpoint in proven {
        match checkpoint.as_ref().map(|checkpoint| policy.quorum(checkpoint)) {
            Some(Ok(cosignatures)) => {
                let by =
                    cosignatures.iter().map(|one| format!("`{}` at {} s", one.witness, one.time_seconds));
                let by = by.collect::<Vec<_>>().join(", ");
                seen = format!("{} of {} needed cosigned: {by}", cosignatures.len(), policy.threshold());
            }
            Some(Err(error)) => findings.add("/log/proof", error.to_string()),
            None => findings
                .add("/log/proof", "has no checkpoint that the log signed, so none that witnesses cosigned"),
        }
    }
    report.add(WITNESSES, findings, seen);
}

/// Checks the proof of a page. Returns its checkpoint and a summary, or `None` if the proof fails.
fn check_inclusion(
    document: &Document,
    section: &LogSection,
    roots: &Roots,
    findings: &mut Findings,
) -> Option<Proven> {
    let root = |name: &str| hash(&document.members, name).unwrap_or(Hex32::ZERO);
    let (record_root, ledger_root) = (root("record_root"), root("ledger_root"));
    let proof: TlogProof = match section.proof.parse() {
        Ok(proof) => proof,
        Err(error) => {
            findings.add("/log/proof", format!("{error}"));
            return None;
        }
    };
    findings.same("/log/index", "the proof's index", &section.index, &proof.index);
    if !proof.extra.is_empty() {
        findings.add("/log/proof", "has extra data, which is not signed");
    }
    if proof.to_string() != section.proof {
        findings.add("/log/proof", "is not in the canonical form of a proof");
    }
    let head = match proof.verify(leaf_hash(record_root), &roots.logs) {
        Ok(head) => head,
        Err(error) => {
            findings.add("/log/proof", format!("the last event is not proved to be in the log: {error}"));
            return None;
        }
    };
    let size = proof.index.saturating_add(1);
    if let Err(error) = verify_consistency(size, head.size(), &section.consistency, ledger_root, head.root())
    {
        // Either of the two may have been altered.
        findings
            .add("/ledger_root", format!("is not proved to be the log's root after event {}", proof.index));
        findings.add("/log/consistency", format!("does not prove `ledger_root`: {error}"));
    }
    let seen = format!("event {} of {} in `{}`", proof.index, head.size(), head.origin());
    Some(Proven { checkpoint: proof.checkpoint, seen })
}
