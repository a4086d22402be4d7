//! Evidence that anyone can verify offline: documents of a real gateway, read with only its roots.

mod command;
mod forged;
mod pages;
mod tampered;
mod total;
mod verified;

use crate::harness::world::World;
use gateway_evidence::verify::Status;
use gateway_evidence::{Reader, Report, Roots, Verdict};
use serde_json::Value;

/// Every named check holds, and no check fails.
#[track_caller]
fn assert_holds(report: &Report, names: &[&str]) {
    assert_ne!(report.verdict(), Verdict::Fails, "{:#?}", report.findings().collect::<Vec<_>>());
    for name in names {
        let check = report.checks.iter().find(|check| check.name == *name);
        assert!(check.is_some_and(|check| matches!(check.status, Status::Holds(_))), "{name}: {check:?}");
    }
}

/// The checks that were not made, each with the reason.
#[track_caller]
fn not_checked(report: &Report) -> Vec<(&'static str, &str)> {
    let mut named = Vec::new();
    for check in &report.checks {
        if let Status::NotChecked(why) = &check.status {
            named.push((check.name, why.as_str()));
        }
    }
    named
}

async fn roots(world: &World) -> Roots {
    Roots::new(world.roots().await).unwrap()
}

fn verify(document: &Value, roots: &Roots) -> Report {
    // Readers have the document as bytes.
    let document = gateway_evidence::parse(document.to_string().as_bytes()).unwrap();
    gateway_evidence::verify(vec![document], &Reader::new(roots))
}
