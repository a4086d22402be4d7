//! Evidence that anyone can verify offline: documents of a real gateway, read with nothing but its roots.

mod command;
mod forged;
mod pages;
mod tampered;
mod verified;

use crate::harness::world::World;
use gateway_evidence::verify::Status;
use gateway_evidence::{Report, Roots};
use serde_json::Value;

/// What holds is named as such, and there is nothing that does not.
fn assert_holds(report: &Report, names: &[&str]) {
    assert!(report.holds(), "{:#?}", report.findings().collect::<Vec<_>>());
    for name in names {
        let check = report.checks.iter().find(|check| check.name == *name);
        assert!(check.is_some_and(|check| matches!(check.status, Status::Holds(_))), "{name}: {check:?}");
    }
}

async fn roots(world: &World) -> Roots {
    Roots::new(world.roots().await).unwrap()
}

fn verify(document: &Value, roots: &Roots) -> Report {
    // As a reader has it: bytes.
    let document = gateway_evidence::parse(document.to_string().as_bytes()).unwrap();
    gateway_evidence::verify(vec![document], roots, None)
}
