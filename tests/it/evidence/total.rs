//! Every part of a document holds, fails, or is reported as not checked. The attacker edits a document without any key, unless
//! the test says otherwise.

use super::forged::Forgery;
use super::{assert_finding_at, assert_holds, not_checked, published_evidence, reader, roots, verify};
use crate::harness::approvers::Signers;
use crate::harness::custody;
use crate::harness::samples::{path, payment, publish, with};
use crate::harness::world::World;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::ReadClock;
use gateway_evidence::roots::RootsFile;
use gateway_evidence::verify::Status;
use gateway_evidence::{EvidenceReader, Report, Roots, Verdict};
use operation_gateway::SystemClock;
use serde_json::{Value, json};

/// Written into the members that a reader derives from the first event.
const FORGED: &str = "66666666666666666666666666666666666666666666666666666666666666f6";

/// The document without its first `n` events, and with forged members.
fn without_first(evidence: &Value, n: usize) -> Value {
    let mut forged = evidence.clone();
    let events = forged["events"].as_array_mut().unwrap();
    let dropped: Vec<Value> = events.drain(..n).collect();
    forged["previous_hash"] = dropped.last().unwrap()["event_hash"].clone();
    forged["truncated"] = json!(true);
    for name in
        ["operation_id", "tenant", "key_ref", "key_id", "intent_hash", "result_ref", "publication_receipt"]
    {
        if let Some(member) = forged.get_mut(name) {
            *member = json!(FORGED);
        }
    }
    for name in ["intent", "submitter", "approvals", "policy", "decision", "receipts", "result", "key"] {
        if let Some(member) = forged.get_mut(name) {
            *member = json!({ "amount_minor": 1, "who": FORGED });
        }
    }
    forged["state"] = json!("executing");
    forged
}

/// The report states that pages and operation were not checked, and shows none of the forged values.
#[track_caller]
fn assert_not_verified(report: &Report) {
    assert_eq!(report.verdict(), Verdict::NotChecked, "{report:#?}");
    let names: Vec<_> = not_checked(report).into_iter().map(|(name, _)| name).collect();
    assert!(names.contains(&"pages") && names.contains(&"operation"), "{names:?}");
    let shown = json!(report).to_string();
    assert!(!shown.contains(FORGED) && !shown.contains("executing"), "{shown}");
}

#[tokio::test]
async fn document_without_its_first_event_is_not_verified() {
    let world = World::start().await;
    let operation = publish(&world, &payment("first")).await;
    let roots = roots(&world).await;
    for export in ["/evidence", "/audit-replay"] {
        let document = world.get(&path(&operation, export)).await.ok();
        let n_events = document["events"].as_array().unwrap().len();
        for n_dropped in [1, n_events - 1] {
            assert_not_verified(&verify(&without_first(&document, n_dropped), &roots));
        }
        // Event numbers are not hashed; renumbering does not make a whole history.
        let mut renumbered = without_first(&document, 1);
        let n_left = u64::try_from(n_events - 1).unwrap();
        for (entry, seq) in renumbered["events"].as_array_mut().unwrap().iter_mut().zip(1_u64..) {
            entry["seq"] = json!(seq);
        }
        (renumbered["total_events"], renumbered["truncated"]) = (json!(n_left), json!(false));
        assert_eq!(verify(&renumbered, &roots).verdict(), Verdict::Fails);
        renumbered["previous_hash"] = json!("00".repeat(32));
        assert_eq!(verify(&renumbered, &roots).verdict(), Verdict::Fails);
    }
}

#[tokio::test]
async fn audit_log_of_another_operation_is_refused() {
    let world = World::start().await;
    let (one, other) = (publish(&world, &payment("one")).await, publish(&world, &payment("other")).await);
    let audit = world.get(&path(&one, "/audit-replay")).await.ok();
    let roots = roots(&world).await;
    let verify_as = |document: &Value, operation: &Value| {
        let operation_id = Some(operation["operation_id"].as_str().unwrap().parse().unwrap());
        gateway_evidence::verify(vec![document.clone()], &EvidenceReader { operation_id, ..reader(&roots) })
    };
    let report = verify_as(&audit, &one);
    assert_holds(&report, &["form", "chain", "times", "opened fields", "operation", "log"]);
    let names: Vec<_> = not_checked(&report).into_iter().map(|(name, _)| name).collect();
    assert_eq!((report.verdict(), names), (Verdict::NotChecked, vec!["what others signed"]));
    // Presented as the log of another operation, with and without an altered id.
    let mut relabelled = audit.clone();
    relabelled["operation_id"] = other["operation_id"].clone();
    for (document, operation) in [(&audit, &other), (&relabelled, &other), (&relabelled, &one)] {
        let report = verify_as(document, operation);
        assert_finding_at(&report, "/operation_id");
    }
    // Without the first event, the id it states can only be compared with the requested one.
    let relabelled = with(without_first(&audit, 1), "/operation_id", other["operation_id"].clone());
    assert_not_verified(&verify_as(&relabelled, &other));
    assert_eq!(verify_as(&relabelled, &one).verdict(), Verdict::Fails);
}

/// The evidence of one operation from before and after a rotation of its key, and that of another operation from after it.
async fn evidence_around_rotation() -> (World, Value, Value, Value) {
    let world = World::ticking().await;
    custody::create_key(&world, "cold").await;
    let sign = custody::key_path("cold", "/sign");
    let signed = custody::publish(&world, &sign, &custody::sign("one")).await;
    let other = custody::publish(&world, &sign, &custody::sign("two")).await;
    let before = world.get(&custody::path(&signed, "/evidence")).await.ok();
    custody::publish(&world, &custody::key_path("cold", "/rotate"), &custody::rotate("cold-2")).await;
    let after = world.get(&custody::path(&signed, "/evidence")).await.ok();
    let other = world.get(&custody::path(&other, "/evidence")).await.ok();
    (world, before, after, other)
}

#[tokio::test]
async fn statement_of_other_evidence_is_refused() {
    let (world, before, after, other) = evidence_around_rotation().await;
    let roots = roots(&world).await;
    for document in [&before, &after, &other] {
        assert_holds(&verify(document, &roots), &["operation", "key", "log", "statement"]);
    }
    // The findings when these members are copied from one document into another.
    let findings_of_copy = |into: &Value, from: &Value, names: &[&str]| {
        let mut copy = into.clone();
        for name in names {
            copy[*name] = from[*name].clone();
        }
        let found: Vec<_> = verify(&copy, &roots).findings().map(ToString::to_string).collect();
        assert!(!found.is_empty(), "{names:?}");
        found.join("\n")
    };
    let statement = &["statement", "stated_at_ms"];
    let found = findings_of_copy(&after, &before, statement);
    assert!(found.contains("/statement: the log's key signed another `log_size`"), "{found}");
    let found = findings_of_copy(&after, &other, statement);
    assert!(found.contains("another `operation_id`") && found.contains("another `record_root`"), "{found}");
    // The statement contains the time.
    let found = findings_of_copy(&after, &before, &["stated_at_ms"]);
    assert!(found.contains("/stated_at_ms: the log's key signed another `stated_at_ms`"), "{found}");
}

/// The attacker has the log's key, here and in the next test.
#[tokio::test]
async fn statement_dated_before_the_last_event_or_in_the_future_is_found() {
    let forgery = Forgery::of_payment().await;
    let now = SystemClock.now();
    for (at_ms, finding) in [
        (EpochMs(1), "/stated_at_ms: is before the operation's last event"),
        (now.plus_ms(3_600_000), "/stated_at_ms: is in the future"),
        // The year 2100.
        (EpochMs(4_102_444_800_000), "/stated_at_ms: is in the future"),
    ] {
        let forged = forgery.forger.stated_at(forgery.forger.events(), at_ms).await;
        forgery.assert_finds_only(&forged, finding);
    }
    let forged = forgery.forger.stated_at(forgery.forger.events(), now).await;
    assert_holds(&forgery.verify(&forged), &["statement"]);
}

#[tokio::test]
async fn event_dated_before_the_previous_one_is_found() {
    let forgery = Forgery::of_payment().await;
    assert_holds(&forgery.verify(&forgery.evidence), &["times"]);
    let submitted_at_ms = forgery.forger.first("submitted")["at_ms"].as_u64().unwrap();
    for kind in ["approval_requested", "admission_applied", "executed", "published"] {
        let alter = |event: &mut Value| event["at_ms"] = json!(submitted_at_ms - 1);
        let forged = forgery.forger.with_event(kind, alter).await;
        let at = format!("/events/{}/event/at_ms: goes back", forgery.forger.index_of(kind));
        forgery.assert_finds(&forged, &at);
    }
    let alter = |event: &mut Value| event["change"]["approval"]["approved_at_ms"] = json!(1);
    forgery.assert_alteration_found("approval_recorded", alter, "/approval/approved_at_ms: ").await;
}

#[tokio::test]
async fn key_id_follows_from_tenant_and_name() {
    let forgery = Forgery::of_payment().await;
    let alter = |event: &mut Value| event["change"]["key"]["key_ref"] = json!("another");
    forgery.assert_finds(
        &forgery.forger.with_event("submitted", alter).await,
        "/key_id: the id of the key of this name",
    );
}

/// Without its disclosed signature, a signed approval would look like an unsigned one.
#[tokio::test]
async fn evidence_with_an_undisclosed_field_is_refused() {
    let signers = Signers::new();
    let world = World::with(&signers.settings("optional")).await;
    let operation = crate::harness::samples::submit(&world, &payment("closed")).await;
    world.post(&path(&operation, "/approve"), &signers.body(&operation, "alice")).await.ok();
    let mut evidence = world.get(&path(&operation, "/evidence")).await.ok();
    let roots = roots(&world).await;
    assert_holds(&verify(&evidence, &roots), &["approvals signed"]);
    let at = "/change/approval/signature";
    for entry in evidence["events"].as_array_mut().unwrap() {
        entry["disclosures"].as_array_mut().unwrap().retain(|opened| opened["path"] != at);
    }
    for approval in evidence["approvals"].as_array_mut().unwrap() {
        approval.as_object_mut().unwrap().remove("signature");
    }
    let report = verify(&evidence, &roots);
    assert!(report.findings().any(|finding| finding.what.contains(at)), "{report:#?}");
}

#[tokio::test]
async fn facts_outside_the_roots_are_reported_as_not_checked() {
    let (world, evidence) = published_evidence(&payment("facts")).await;
    let file = world.roots().await;
    // The one status of the check of facts, under roots with these facts.
    let status = |facts: Value| {
        let roots = RootsFile { facts: serde_json::from_value(facts).unwrap(), ..file.clone() };
        let report = verify(&evidence, &Roots::new(roots).unwrap());
        let checks = report.checks.into_iter().filter(|check| check.name == "policy facts");
        let [check] = checks.collect::<Vec<_>>().try_into().unwrap();
        check.status
    };
    let Status::NotChecked(why) = status(json!({})) else { panic!("facts were checked") };
    assert!(why.contains("`deployment.permitted_recipients`"), "{why}");
    let known = json!({
        "deployment.permitted_recipients": ["acct-else", "*"],
        "deployment.required_approvals": ["2"],
        "deployment.separation_of_duties": ["false"],
    });
    assert!(matches!(status(known.clone()), Status::Holds(_)));
    let other = with(known, "/deployment.permitted_recipients", json!(["acct-else"]));
    let Status::Fails(findings) = status(other) else { panic!("the fact was allowed") };
    assert!(
        findings[0]
            .to_string()
            .contains("`deployment.permitted_recipients=*` is not a value that the roots allow"),
        "{findings:?}"
    );
}

#[tokio::test]
async fn evidence_of_another_format_is_refused_by_name() {
    let (world, evidence) = published_evidence(&payment("earlier")).await;
    assert_eq!(evidence["format"], "svc/evidence/v4");
    let roots = roots(&world).await;
    let report = verify(&with(evidence, "/format", json!("svc/evidence/v3")), &roots);
    let found: Vec<_> = report.findings().map(ToString::to_string).collect();
    assert_eq!(found, ["/format: the format `svc/evidence/v3` is unknown"]);
}

#[tokio::test]
async fn unknown_member_of_a_page_is_found() {
    let world = World::start().await;
    let operation = publish(&world, &payment("more")).await;
    let roots = roots(&world).await;
    for export in ["/evidence", "/audit-replay"] {
        let document = world.get(&path(&operation, export)).await.ok();
        let more = with(without_first(&document, 1), "/more", json!(1));
        assert_finding_at(&verify(&more, &roots), "/more");
    }
}
