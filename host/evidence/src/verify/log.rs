//! Checks the log proof: the last event is in a signed log of all events, and `ledger_root` is that log's root right after
//! this event.

use super::pages::{Document, hash};
use super::report::{Findings, Report};
use crate::roots::Roots;
use gateway_domain::ids::Hex32;
use gateway_domain::log::{TlogProof, leaf_hash, verify_consistency};
use serde::Deserialize;

const NAME: &str = "log";

/// The document's `log`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LogSection {
    index: u64,
    proof: String,
    consistency: Vec<Hex32>,
}

/// Checks the proof of each page. Returns the size of each page's signed log, or `None` if its proof fails.
pub(crate) fn check(document: &Document, roots: &Roots, report: &mut Report) -> Vec<Option<u64>> {
    let (mut findings, mut sizes, mut seen) = (Findings::default(), Vec::new(), String::new());
    for page in &document.pages {
        let section = page.get("log").cloned().unwrap_or_default();
        let head = match serde_json::from_value(section) {
            Ok(section) => check_inclusion(document, &section, roots, &mut findings),
            Err(error) => {
                findings.add("/log", format!("is not a log proof: {error}"));
                None
            }
        };
        sizes.push(head.as_ref().map(|(size, _)| *size));
        seen = head.map(|(_, seen)| seen).unwrap_or_default();
    }
    report.add(NAME, findings, seen);
    sizes
}

/// Checks the proof of a page. Returns the size of its signed log and a summary, or `None` if the proof fails.
fn check_inclusion(
    document: &Document,
    section: &LogSection,
    roots: &Roots,
    findings: &mut Findings,
) -> Option<(u64, String)> {
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
    Some((head.size(), format!("event {} of {} in `{}`", proof.index, head.size(), head.origin())))
}
