//! Verification is total: every part of a document holds, fails, or is reported as not checked. The attacker edits a file and has
//! no key, unless the test says otherwise.

use super::forged::Forgery;
use super::{assert_holds, not_checked, roots, verify};
use crate::harness::approvers::Signers;
use crate::harness::custody;
use crate::harness::samples::{path, payment, published, with};
use crate::harness::world::World;
use gateway_evidence::roots::RootsFile;
use gateway_evidence::verify::Status;
use gateway_evidence::{Reader, Report, Roots, Verdict};
use serde_json::{Value, json};

/// Written over every member that follows from the first event.
const FORGED: &str = "66666666666666666666666666666666666666666666666666666666666666f6";

/// Drops the first `n` events and forges the other members.
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

/// The report names what was not checked, and shows none of the forged values.
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
    let operation = published(&world, &payment("first")).await;
    let roots = roots(&world).await;
    for export in ["/evidence", "/audit-replay"] {
        let document = world.get(&path(&operation, export)).await.ok();
        let n_events = document["events"].as_array().unwrap().len();
        // One event dropped, and all but the last.
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
    let (one, other) = (published(&world, &payment("one")).await, published(&world, &payment("other")).await);
    let audit = world.get(&path(&one, "/audit-replay")).await.ok();
    let roots = roots(&world).await;
    let verified_as = |document: &Value, operation: &Value| {
        let operation_id = Some(operation["operation_id"].as_str().unwrap().parse().unwrap());
        gateway_evidence::verify(vec![document.clone()], &Reader { operation_id, ..Reader::new(&roots) })
    };
    let report = verified_as(&audit, &one);
    assert_holds(&report, &["form", "chain", "times", "opened fields", "operation", "log"]);
    let names: Vec<_> = not_checked(&report).into_iter().map(|(name, _)| name).collect();
    assert_eq!((report.verdict(), names), (Verdict::NotChecked, vec!["what others signed"]));
    // Shown as the log of another operation, with and without its id altered.
    let mut relabelled = audit.clone();
    relabelled["operation_id"] = other["operation_id"].clone();
    for (document, operation) in [(&audit, &other), (&relabelled, &other), (&relabelled, &one)] {
        let report = verified_as(document, operation);
        assert!(report.findings().any(|finding| finding.at == "/operation_id"), "{report:#?}");
    }
    // Without the first event, the id it states can only be compared with the requested one.
    let relabelled = with(without_first(&audit, 1), "/operation_id", other["operation_id"].clone());
    assert_not_verified(&verified_as(&relabelled, &other));
    assert_eq!(verified_as(&relabelled, &one).verdict(), Verdict::Fails);
}

/// The evidence of one operation, got before its key was rotated and after.
async fn before_and_after_rotation() -> (World, Value, Value, Value) {
    let world = World::ticking().await;
    custody::made(&world, "cold").await;
    let sign = custody::on_key("cold", "/sign");
    let signed = custody::published(&world, &sign, &custody::sign("one")).await;
    let other = custody::published(&world, &sign, &custody::sign("two")).await;
    let before = world.get(&custody::path(&signed, "/evidence")).await.ok();
    custody::published(&world, &custody::on_key("cold", "/rotate"), &custody::rotate("cold-2")).await;
    let after = world.get(&custody::path(&signed, "/evidence")).await.ok();
    let other = world.get(&custody::path(&other, "/evidence")).await.ok();
    (world, before, after, other)
}

#[tokio::test]
async fn key_note_of_other_evidence_is_refused() {
    let (world, before, after, other) = before_and_after_rotation().await;
    let roots = roots(&world).await;
    assert_eq!((&before["key"]["state"], &after["key"]["state"]), (&json!("active"), &json!("rotated")));
    for document in [&before, &after, &other] {
        assert_holds(&verify(document, &roots), &["operation", "key", "log"]);
    }
    let pasted = |into: &Value, from: &Value, names: &[&str]| {
        let mut pasted = into.clone();
        for name in names {
            pasted[*name] = from[*name].clone();
        }
        let found: Vec<_> = verify(&pasted, &roots).findings().map(ToString::to_string).collect();
        assert!(!found.is_empty(), "{names:?}");
        found.join("\n")
    };
    let note = &["key", "key_note", "key_stated_at_ms"];
    let found = pasted(&after, &before, note);
    assert!(
        found.contains("/key_note: differs from the statement in `key_note`: it has another `log_size`"),
        "{found}"
    );
    let found = pasted(&after, &other, note);
    assert!(
        found.contains("it has another `operation_id`") && found.contains("it has another `record_root`"),
        "{found}"
    );
    // The time is in the note.
    let found = pasted(&after, &before, &["key_stated_at_ms"]);
    assert!(found.contains("/key_stated_at_ms: differs from the statement in `key_note`"), "{found}");
}

/// The attacker has the log's key.
#[tokio::test]
async fn key_statement_is_not_older_than_the_last_event() {
    let forgery = Forgery::of_payment("/threshold", json!(2)).await;
    let alter = |events: &mut Vec<Value>| events.last_mut().unwrap()["at_ms"] = json!(u64::MAX >> 1);
    let mut written = forgery.forger.events(alter).await;
    written["key_stated_at_ms"] = json!(1);
    forgery.assert_finds(&written, "/key_stated_at_ms: is before the operation's last event");
    forgery.assert_finds_only(&forgery.forger.key(|key| *key = Value::Null).await, "/key: ");
    let written = forgery.forger.key(|key| key["key_ref"] = json!("another")).await;
    forgery.assert_finds_only(&written, "/key/key_ref: ");
}

/// The attacker has the log's key.
#[tokio::test]
async fn event_dated_before_the_previous_one_is_found() {
    let forgery = Forgery::of_payment("/threshold", json!(2)).await;
    assert_holds(&forgery.verified(&forgery.evidence), &["times"]);
    for kind in ["approval_requested", "admission_applied", "executed", "published"] {
        let submitted = forgery.forger.first("submitted")["at_ms"].as_u64().unwrap();
        let written = forgery.forger.event(kind, |event| event["at_ms"] = json!(submitted - 1)).await;
        let at = format!("/events/{}/event/at_ms: goes back", forgery.forger.place(kind));
        forgery.assert_finds(&written, &at);
    }
    let alter = |event: &mut Value| event["change"]["approval"]["approved_at_ms"] = json!(1);
    let written = forgery.forger.event("approval_recorded", alter).await;
    forgery.assert_finds(&written, &forgery.at("approval_recorded", "/approval/approved_at_ms: "));
}

#[tokio::test]
async fn key_id_follows_from_tenant_and_name() {
    let forgery = Forgery::of_payment("/threshold", json!(2)).await;
    let alter = |event: &mut Value| event["change"]["key"]["key_ref"] = json!("another");
    forgery.assert_finds(
        &forgery.forger.event("submitted", alter).await,
        "/key_id: the id of the key of this name",
    );
}

/// Without its signature, a signed approval would read as an unsigned one.
#[tokio::test]
async fn evidence_with_a_closed_field_is_refused() {
    let signers = Signers::new();
    let world = World::with(&signers.given("optional")).await;
    let operation = crate::harness::samples::submitted(&world, &payment("closed")).await;
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
    let world = World::start().await;
    let operation = published(&world, &payment("facts")).await;
    let evidence = world.get(&path(&operation, "/evidence")).await.ok();
    let file = world.roots().await;
    let facts_statuses = |facts: Value| {
        let roots = RootsFile { facts: serde_json::from_value(facts).unwrap(), ..file.clone() };
        let report = verify(&evidence, &Roots::new(roots).unwrap());
        report
            .checks
            .into_iter()
            .filter(|check| check.name == "policy facts")
            .map(|check| check.status)
            .collect()
    };
    let statuses: Vec<Status> = facts_statuses(json!({}));
    let [Status::NotChecked(why)] = statuses.as_slice() else { panic!("{statuses:?}") };
    assert!(why.contains("`deployment.permitted_recipients`"), "{why}");
    let known = json!({
        "deployment.permitted_recipients": ["nobody", "*"],
        "deployment.required_approvals": ["2"],
        "deployment.separation_of_duties": ["false"],
    });
    let statuses: Vec<Status> = facts_statuses(known.clone());
    assert!(matches!(statuses.as_slice(), [Status::Holds(_)]), "{statuses:?}");
    let statuses: Vec<Status> =
        facts_statuses(with(known, "/deployment.permitted_recipients", json!(["nobody"])));
    let [Status::Fails(findings)] = statuses.as_slice() else { panic!("{statuses:?}") };
    assert!(
        findings[0]
            .to_string()
            .contains("`deployment.permitted_recipients=*` is not a value that the roots allow"),
        "{findings:?}"
    );
}

#[tokio::test]
async fn evidence_of_an_earlier_format_is_refused_by_name() {
    let world = World::start().await;
    let operation = published(&world, &payment("earlier")).await;
    let evidence = world.get(&path(&operation, "/evidence")).await.ok();
    assert_eq!(evidence["format"], "svc/evidence/v2");
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
    let operation = published(&world, &payment("more")).await;
    let roots = roots(&world).await;
    for export in ["/evidence", "/audit-replay"] {
        let document = world.get(&path(&operation, export)).await.ok();
        let more = with(without_first(&document, 1), "/more", json!(1));
        let report = verify(&more, &roots);
        assert!(report.findings().any(|finding| finding.at == "/more"), "{report:#?}");
    }
}
