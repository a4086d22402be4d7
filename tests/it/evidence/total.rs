//! Every part of a document holds, fails, or is reported as not checked. The attacker edits a document without any key, unless
//! the test says otherwise.

use super::forged::Forgery;
use super::{assert_finding_at, assert_holds, not_checked, published_evidence, roots, verify};
use crate::harness::approvers::Signers;
use crate::harness::custody;
use crate::harness::samples::{path, payment, publish, with};
use crate::harness::world::World;
use gateway_evidence::roots::RootsFile;
use gateway_evidence::verify::Status;
use gateway_evidence::{Reader, Report, Roots, Verdict};
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
        gateway_evidence::verify(vec![document.clone()], &Reader { operation_id, ..Reader::new(&roots) })
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
async fn key_note_of_other_evidence_is_refused() {
    let (world, before, after, other) = evidence_around_rotation().await;
    let roots = roots(&world).await;
    assert_eq!((&before["key"]["state"], &after["key"]["state"]), (&json!("active"), &json!("rotated")));
    for document in [&before, &after, &other] {
        assert_holds(&verify(document, &roots), &["operation", "key", "log"]);
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
    let note = &["key", "key_note", "key_stated_at_ms"];
    let found = findings_of_copy(&after, &before, note);
    assert!(
        found.contains("/key_note: differs from the statement in `key_note`: it has another `log_size`"),
        "{found}"
    );
    let found = findings_of_copy(&after, &other, note);
    assert!(
        found.contains("it has another `operation_id`") && found.contains("it has another `record_root`"),
        "{found}"
    );
    // The note contains the time.
    let found = findings_of_copy(&after, &before, &["key_stated_at_ms"]);
    assert!(found.contains("/key_stated_at_ms: differs from the statement in `key_note`"), "{found}");
}

/// The attacker has the log's key, here and in the next test.
#[tokio::test]
async fn key_statement_dated_before_the_last_event_is_found() {
    let forgery = Forgery::of_payment().await;
    let alter = |events: &mut Vec<Value>| events.last_mut().unwrap()["at_ms"] = json!(u64::MAX >> 1);
    let mut forged = forgery.forger.with_events(alter).await;
    forged["key_stated_at_ms"] = json!(1);
    forgery.assert_finds(&forged, "/key_stated_at_ms: is before the operation's last event");
    forgery.assert_finds_only(&forgery.forger.with_key(|key| *key = Value::Null).await, "/key: ");
    let forged = forgery.forger.with_key(|key| key["key_ref"] = json!("another")).await;
    forgery.assert_finds_only(&forged, "/key/key_ref: ");
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
async fn evidence_of_an_earlier_format_is_refused_by_name() {
    let (world, evidence) = published_evidence(&payment("earlier")).await;
    assert_eq!(evidence["format"], "svc/evidence/v4");
    let roots = roots(&world).await;
    let report = verify(&with(evidence.clone(), "/format", json!("svc/evidence/v1")), &roots);
    let [("form", why)] = not_checked(&report)[..] else { panic!("{report:#?}") };
    assert!(
        why.contains("`svc/evidence/v1`") && why.contains("an earlier release") && why.contains("again"),
        "{why}"
    );
    assert_eq!((report.checks.len(), report.verdict()), (1, Verdict::NotChecked));
    let report = verify(&with(evidence, "/format", json!("svc/evidence/v9")), &roots);
    assert_eq!(report.verdict(), Verdict::Fails);
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
