//! Evidence with signed approvals, verified with the registry of approvers and without it.

mod times;

use super::published;
use crate::evidence::reader;
use crate::harness::approvers::Signers;
use crate::harness::process::run;
use crate::harness::samples::{approval, path, payment, submit};
use crate::harness::world::World;
use gateway_domain::testing::approvers::{key, key_entry};
use gateway_evidence::roots::{RootsFile, SignedApprovals};
use gateway_evidence::verify::Status;
use gateway_evidence::{Finding, Report, Roots, Verdict};
use serde_json::{Value, json};

const CHECK: &str = "approvals signed";

pub(super) fn verify(document: &Value, roots: RootsFile) -> Report {
    let document = gateway_evidence::parse(document.to_string().as_bytes()).unwrap();
    gateway_evidence::verify(vec![document], &reader(&Roots::new(roots).unwrap()))
}

/// The statuses of the checks of approvals.
pub(super) fn statuses(report: &Report) -> Vec<&Status> {
    report.checks.iter().filter(|check| check.name == CHECK).map(|check| &check.status).collect()
}

/// A check of approvals was not made, for a reason that contains `part`.
#[track_caller]
fn assert_not_checked(report: &Report, part: &str) {
    let statuses = statuses(report);
    assert!(
        statuses.iter().any(|status| matches!(status, Status::NotChecked(why) if why.contains(part))),
        "{part}: {statuses:?}"
    );
}

/// A gateway that requires signed approvals, the evidence of a payment, and the trust roots.
async fn signed_payment() -> (World, Value, RootsFile) {
    let signers = Signers::new();
    let world = World::with(&signers.settings("required")).await;
    let operation = published(&world, &signers).await;
    let evidence = world.get(&path(&operation, "/evidence")).await.ok();
    let roots = world.roots().await;
    (world, evidence, roots)
}

/// A public key that no approver has.
fn unregistered_key() -> Value {
    key_entry(&key(99))["public_key"].clone()
}

#[tokio::test]
async fn evidence_reader_verifies_approvers_signatures() {
    let (_world, evidence, roots) = signed_payment().await;
    assert_eq!(roots.signed_approvals, Some(SignedApprovals::Required));
    let report = verify(&evidence, roots.clone());
    assert_eq!(report.findings().collect::<Vec<_>>(), Vec::<&Finding>::new());
    assert_eq!(statuses(&report), [&Status::Holds("2 of 2 by their approvers".into())]);
    // Without a registry, the signatures cannot be checked.
    let without = RootsFile { approvers: None, signed_approvals: None, ..roots };
    let report = verify(&evidence, without);
    assert_eq!(report.verdict(), Verdict::NotChecked);
    assert_not_checked(&report, "the roots list no approvers");
}

#[tokio::test]
async fn approval_is_rejected_if_the_registry_does_not_permit_it() {
    let (_world, evidence, roots) = signed_payment().await;
    let altered_roots = |alter: fn(&mut Value)| {
        let mut approvers = json!(roots.approvers);
        alter(&mut approvers);
        RootsFile { approvers: Some(serde_json::from_value(approvers).unwrap()), ..roots.clone() }
    };
    for (alter, fault) in [
        ((|file| file["approvers"][0]["subject_id"] = json!("dave")) as fn(&mut Value), "unknown_approver"),
        (|file| file["approvers"][0]["keys"][0]["public_key"] = json!(unregistered_key()), "unknown_key"),
        (|file| file["approvers"][0]["keys"][0]["revoked_at_ms"] = json!(1), "key_revoked"),
        (|file| file["approvers"][0]["tenants"] = json!(["other"]), "unknown_approver"),
        (|file| file["approvers"][0]["roles"] = json!(["clerk"]), "role_not_held"),
    ] {
        let report = verify(&evidence, altered_roots(alter));
        let found: Vec<_> = report.findings().map(ToString::to_string).collect();
        assert!(found.len() == 1 && found[0].contains(&format!("`{fault}`")), "{fault}: {found:?}");
        assert!(found[0].starts_with("/events/2/event/change/approval/signature: "), "{found:?}");
    }
}

#[tokio::test]
async fn person_or_attribute_that_the_roots_know_otherwise_is_found() {
    let (_world, evidence, roots) = signed_payment().await;
    for (index, member, value, place) in [
        (3, "attributes", json!({ "team": "treasury" }), "0/event/change/submitter"),
        (0, "person", json!("carol"), "2/event/change/approval"),
        (1, "attributes", json!({ "team": "treasury" }), "3/event/change/approval"),
    ] {
        let mut approvers = json!(roots.approvers);
        approvers["approvers"][index][member] = value;
        let altered =
            RootsFile { approvers: Some(serde_json::from_value(approvers).unwrap()), ..roots.clone() };
        let report = verify(&evidence, altered);
        let found: Vec<_> = report.findings().map(ToString::to_string).collect();
        assert!(found.len() == 1 && found[0].contains("`other_registered`"), "{found:?}");
        assert!(found[0].starts_with(&format!("/events/{place}/registered: ")), "{found:?}");
    }
    let report = verify(&evidence, RootsFile { approvers: None, signed_approvals: None, ..roots });
    assert_not_checked(&report, "the persons and attributes of `carol` are claimed by the gateway alone");
}

#[tokio::test]
async fn unsigned_approvals_are_reported_as_not_verified() {
    let (world, evidence) = crate::evidence::published_evidence(&payment("unsigned")).await;
    let roots = world.roots().await;
    assert_eq!((&roots.approvers, roots.signed_approvals), (&None, None));
    let report = verify(&evidence, roots.clone());
    assert_eq!(report.verdict(), Verdict::NotChecked);
    assert_not_checked(
        &report,
        "the approval of `alice`, the approval of `bob` are claimed by the gateway alone: its approver did not sign it",
    );
    // A reader that requires signed approvals reports the missing signatures.
    let registry = serde_json::from_value(json!({ "format": "svc/approvers/v2", "approvers": [] })).unwrap();
    let required =
        RootsFile { approvers: Some(registry), signed_approvals: Some(SignedApprovals::Required), ..roots };
    let report = verify(&evidence, required.clone());
    let found: Vec<_> = report.findings().map(ToString::to_string).collect();
    assert!(found.len() == 2 && found.iter().all(|found| found.contains("`not_signed`")), "{found:?}");
    assert!(Roots::new(RootsFile { approvers: None, ..required }).is_err());
}

#[tokio::test]
async fn decision_without_signed_approvals_is_found_when_signatures_are_required() {
    let world = World::with(&[("required_approvals", "0")]).await;
    let operation = submit(&world, &payment("unapproved")).await;
    world.post_nothing(&path(&operation, "/execute")).await.ok();
    let evidence = world.get(&path(&operation, "/evidence")).await.ok();
    let roots = world.roots().await;
    let report = verify(&evidence, roots.clone());
    assert_eq!(report.verdict(), Verdict::NotChecked);
    assert_eq!(statuses(&report), Vec::<&Status>::new(), "there is no approval to check");
    let admission = report.checks.iter().find(|check| check.name == "admission").unwrap();
    assert_eq!(admission.status, Status::Holds("signed with 0 approvals, of 0 required".into()));
    let registry = serde_json::from_value(json!({ "format": "svc/approvers/v2", "approvers": [] })).unwrap();
    let required =
        RootsFile { approvers: Some(registry), signed_approvals: Some(SignedApprovals::Required), ..roots };
    let found: Vec<_> = verify(&evidence, required).findings().map(ToString::to_string).collect();
    assert!(found.len() == 1 && found[0].contains("no approver signed for it"), "{found:?}");
}

#[tokio::test]
async fn signed_and_unsigned_approvals_are_reported_separately() {
    let signers = Signers::new();
    let world = World::with(&signers.settings("optional")).await;
    let operation = submit(&world, &payment("part")).await;
    let approve = path(&operation, "/approve");
    world.post(&approve, &approval("alice")).await.ok();
    world.post(&approve, &signers.body(&operation, "bob")).await.ok();
    let evidence = world.get(&path(&operation, "/evidence")).await.ok();
    let report = verify(&evidence, world.roots().await);
    assert_eq!(report.verdict(), Verdict::NotChecked);
    assert!(statuses(&report).contains(&&Status::Holds("1 of 2 by their approvers".into())));
    assert_not_checked(&report, "the approval of `alice` is claimed by");
    // The audit log shows that there is a signature, and not whose key made it.
    let audit = world.get(&path(&operation, "/audit-replay")).await.ok().to_string();
    assert!(audit.contains("\"signature\":{\"commitment\""), "{audit}");
    assert!(!audit.contains("client_data_json") && !audit.contains("credential_id"), "{audit}");
}

#[tokio::test]
async fn signed_approvals_known_facts_and_bundle_verify_with_exit_code_0() {
    let (_world, evidence, roots) = signed_payment().await;
    let facts = json!({
        "deployment.permitted_recipients": ["*"],
        "deployment.required_approvals": ["2"],
        "deployment.separation_of_duties": ["false"],
    });
    let roots = RootsFile { facts: serde_json::from_value(facts).unwrap(), ..roots };
    let report = verify(&evidence, roots.clone());
    assert!(report.checks.iter().all(|check| matches!(check.status, Status::Holds(_))), "{report:#?}");
    assert_eq!(report.verdict(), Verdict::Holds);

    let reader = tempfile::tempdir().unwrap();
    let write = |name: &str, value: &Value| {
        let path = reader.path().join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path.display().to_string()
    };
    let id = evidence["operation_id"].as_str().unwrap();
    let (file, roots) = (write("evidence.json", &evidence), write("roots.json", &json!(roots)));
    let bundle = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/payment-guard");
    let arguments = ["evidence", "verify", &file, "--trust", &roots, "--bundle", bundle, "--operation", id];
    let (code, out, _) = run(&reader.path().join("no-gateway"), &[], &arguments);
    assert_eq!(code, 0, "{out}");
    assert!(out.lines().rev().skip(1).all(|line| line.starts_with("ok  ")), "{out}");
    assert!(out.ends_with("every check that applies was made and holds\n"), "{out}");
}
