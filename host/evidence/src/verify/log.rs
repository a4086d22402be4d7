//! The log of all events: the document's last event is in it, its head is signed, and the root that the operation names is
//! that of the same log right after this event.

use super::Read;
use super::report::{Findings, Report};
use crate::roots::Roots;
use gateway_domain::ids::Hex32;
use gateway_domain::log::{TlogProof, leaf_hash, verify_consistency};
use serde::Deserialize;
use serde_json::Value;

const NAME: &str = "log";

/// The document's `log`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LogSection {
    index: u64,
    proof: String,
    consistency: Vec<Hex32>,
}

pub(crate) fn check(read: &Read, roots: &Roots, report: &mut Report) {
    let section = read.members.get("log").cloned().unwrap_or_default();
    match serde_json::from_value(section) {
        Err(error) => report.add(NAME, Findings::of("/log", format!("is not a log proof: {error}")), ""),
        Ok(section) => {
            let mut findings = Findings::default();
            let seen = included(read, &section, roots, &mut findings);
            report.add(NAME, findings, seen);
        }
    }
}

fn included(read: &Read, section: &LogSection, roots: &Roots, findings: &mut Findings) -> String {
    let root = |name: &str| {
        read.members.get(name).and_then(Value::as_str).and_then(|text| text.parse::<Hex32>().ok())
    };
    let (record_root, ledger_root) =
        (root("record_root").unwrap_or(Hex32::ZERO), root("ledger_root").unwrap_or(Hex32::ZERO));
    let proof: TlogProof = match section.proof.parse() {
        Ok(proof) => proof,
        Err(error) => {
            findings.add("/log/proof", format!("{error}"));
            return String::new();
        }
    };
    findings.same("/log/index", "the proof's place", &section.index, &proof.index);
    if !proof.extra.is_empty() {
        findings.add("/log/proof", "has extra data, which nobody signed");
    }
    if proof.to_string() != section.proof {
        findings.add("/log/proof", "is spelt otherwise than a proof is written");
    }
    let head = match proof.verify(leaf_hash(record_root), &roots.logs) {
        Ok(head) => head,
        Err(error) => {
            findings.add("/log/proof", format!("the last event is not proved to be in the log: {error}"));
            return String::new();
        }
    };
    let size = proof.index.saturating_add(1);
    if let Err(error) = verify_consistency(size, head.size(), &section.consistency, ledger_root, head.root())
    {
        // Either may be the one that was altered.
        findings
            .add("/ledger_root", format!("is not proved to be the log's root after event {}", proof.index));
        findings.add("/log/consistency", format!("does not prove it: {error}"));
    }
    format!("event {} of {} in `{}`", proof.index, head.size(), head.origin())
}
