//! Evidence that a gateway exports, intact and forged, verified offline against its trust roots.

mod aborted;
mod command;
mod forged;
mod lies;
mod nodes;
mod pages;
mod tampered;
mod total;
mod vectors;
mod verified;

use crate::harness::samples::{path, publish};
use crate::harness::world::World;
use gateway_engine::ports::ReadClock;
use gateway_evidence::verify::Status;
use gateway_evidence::{EvidenceReader, Report, Roots, Verdict};
use operation_gateway::SystemClock;
use serde_json::Value;

/// Asserts that each named check was made and passed, and that none failed.
#[track_caller]
pub(crate) fn assert_holds(report: &Report, names: &[&str]) {
    assert_ne!(report.verdict(), Verdict::Fails, "{:#?}", report.findings().collect::<Vec<_>>());
    for name in names {
        let check = report.checks.iter().find(|check| check.name == *name);
        assert!(check.is_some_and(|check| matches!(check.status, Status::Holds(_))), "{name}: {check:?}");
    }
}

/// The checks that were not made: name and reason.
#[track_caller]
fn not_checked(report: &Report) -> Vec<(&'static str, &str)> {
    let mut not_checked = Vec::new();
    for check in &report.checks {
        if let Status::NotChecked(why) = &check.status {
            not_checked.push((check.name, why.as_str()));
        }
    }
    not_checked
}

/// The trust roots of this gateway.
pub(crate) async fn roots(world: &World) -> Roots {
    Roots::new(world.roots().await).unwrap()
}

/// Serializes the document and verifies the bytes, as someone who received a file would.
pub(crate) fn verify(document: &Value, roots: &Roots) -> Report {
    let document = gateway_evidence::parse(document.to_string().as_bytes()).unwrap();
    verify_pages(vec![document], roots)
}

fn verify_pages(pages: Vec<Value>, roots: &Roots) -> Report {
    gateway_evidence::verify(pages, &reader(roots))
}

/// A reader with these roots, now.
pub(crate) fn reader(roots: &Roots) -> EvidenceReader<'_> {
    EvidenceReader::new(roots, SystemClock.now())
}

/// Starts a gateway, signs and publishes the payment, and returns the gateway and the operation's evidence.
pub(crate) async fn published_evidence(payment: &Value) -> (World, Value) {
    let world = World::start().await;
    let operation = publish(&world, payment).await;
    let evidence = world.get(&path(&operation, "/evidence")).await.ok();
    (world, evidence)
}

#[track_caller]
fn assert_finding_at(report: &Report, at: &str) {
    assert!(report.findings().any(|finding| finding.at == at), "{at}: {report:#?}");
}
