use super::{UNKNOWN, assert_refused_by_name};
use crate::harness::modes::{Deployment, Mode, test_caller};
use crate::harness::process::{Process, SIGN};
use crate::harness::samples::{admit, approval, client, path, payment, submit, with};
use crate::harness::timed::TimedWorld;
use crate::harness::world::World;
use serde_json::{Value, json};

#[tokio::test]
async fn invalid_approval_is_refused_by_member_and_changes_nothing() {
    let world = World::start().await;
    let operation = submit(&world, &payment("approve")).await;
    let approve = path(&operation, "/approve");
    let cases = [
        ("/subject_id", Value::Null, "`/subject_id` is required"),
        ("/subject_id", json!(""), "`/subject_id` must not be empty"),
        ("/roles", Value::Null, "`/roles` is required"),
        ("/roles", json!({}), "`/roles` must be an array"),
        ("/approved_at_ms", json!("now"), "`/approved_at_ms` must be an integer from"),
    ];
    assert_refused_by_name(&world, &approve, &approval("alice"), &cases).await;
    assert_eq!(world.get(&path(&operation, "")).await.ok(), operation);
    let unknown = format!("/v1/operations/{UNKNOWN}/approve");
    world.post(&unknown, &approval("a")).await.fails(404, "operation_not_found");
}

#[tokio::test]
async fn repeated_approval_of_one_subject_counts_once() {
    let world = World::start().await;
    let operation = submit(&world, &payment("twice")).await;
    let first = world.post(&path(&operation, "/approve"), &approval("alice")).await.ok();
    let again = world.post(&path(&operation, "/approve"), &approval("alice")).await.ok();
    assert_eq!(first, again);
    let missing = json!([{ "group": null, "people": 1 }]);
    let one = json!({ "approved": 1, "required": 2, "subjects": ["alice"], "missing": missing, "admit_not_before_ms": null });
    assert_eq!(again["approvals"], one);
}

#[tokio::test]
async fn approval_after_the_quorum_only_adds_evidence() {
    let world = World::start().await;
    let operation = admit(&world, &payment("late")).await;
    let late = world.post(&path(&operation, "/approve"), &approval("dave")).await.ok();
    assert_eq!((&late["state"], &late["approvals"]), (&operation["state"], &operation["approvals"]));
    assert_ne!(late["runtime"]["record_root"], operation["runtime"]["record_root"]);
}

#[tokio::test]
async fn submitters_own_approval_is_refused_under_separation_of_duties() {
    let world = World::with(&[("separation_of_duties", "true")]).await;
    let operation = submit(&world, &payment("own")).await;
    let own = world.post(&path(&operation, "/approve"), &approval("carol")).await;
    let message = own.fails(403, "approver_not_permitted");
    // Only the reason for this approver, not those for the payment.
    assert_eq!(
        message,
        "approval of `carol` does not count: approval_not_counted: subject carol, is_submitter true"
    );
    assert_eq!(world.get(&path(&operation, "")).await.ok()["approvals"]["approved"], 0);
}

#[test]
fn approval_of_an_operation_that_the_policy_now_denies_is_policy_rejected_and_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    let operation = process.post(SIGN, Some(&payment("denied-later")))["operation"].clone();
    drop(process);
    let process = Process::start(folder.path(), None, &[("permitted_recipients", "acct-other")]);
    let (status, refused) = process.call("POST", &path(&operation, "/approve"), Some(&approval("alice")));
    assert_eq!((status, &refused["error"]), (403, &json!("policy_rejected")), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("recipient_not_permitted"), "{refused}");
    assert_eq!(process.get(&path(&operation, "")), operation);
}

#[tokio::test]
async fn identified_caller_approves_only_as_itself() {
    let world = World::start().await;
    let operation = submit(&world, &payment("self")).await;
    let alice = test_caller("alice", "operations.approve").headers();
    let approve = path(&operation, "/approve");
    world.call_as(&alice, "POST", &approve, &approval("bob")).await.fails(403, "approver_not_permitted");
    let for_another_client = with(approval("alice"), "/client", client());
    world.call_as(&alice, "POST", &approve, &for_another_client).await.fails(403, "client_binding_mismatch");
    let in_another_role = with(approval("alice"), "/roles", json!(["cfo"]));
    world.call_as(&alice, "POST", &approve, &in_another_role).await.fails(403, "approver_not_permitted");
    world.call_as(&alice, "POST", &approve, &approval("alice")).await.ok();
}

#[tokio::test]
async fn approval_after_the_deadline_fails_the_operation() {
    let world = TimedWorld::start(&[("approval_ttl_ms", "1")]).await;
    let operation = submit(&world, &payment("expired")).await;
    assert_eq!(operation["expires_at_ms"], operation["created_at_ms"].as_u64().unwrap() + 1);
    world.advance_ms(5);
    let message =
        world.post(&path(&operation, "/approve"), &approval("alice")).await.fails(409, "operation_failed");
    assert!(message.contains("no quorum within 1 ms"), "{message}");
    let now = world.get(&path(&operation, "")).await.ok();
    assert_eq!((&now["state"], &now["expires_at_ms"]), (&json!("failed"), &Value::Null));
    let failure = json!({ "code": "approval_expired", "message": "no quorum within 1 ms of submission", "culprits": [] });
    assert_eq!(now["failure"], failure);
    assert_eq!(now["intent"], operation["intent"]);
}

/// A proxy passes on the name that a person typed to its identity provider, which does not tell these spellings apart.
#[tokio::test]
async fn one_person_in_several_spellings_fills_no_quorum_of_two() {
    // Headers have ASCII alone.
    for (mode, spellings) in [
        (Mode::TrustedHeaders, ["Alice", "alice", "ALICE", "aLICE"]),
        (Mode::Jwks, ["Ren\u{e9}e", "rene\u{301}e", "REN\u{c9}E", "\u{ff32}en\u{e9}e"]),
    ] {
        let deployment = Deployment::with(mode, &[("separation_of_duties", "true")]).await;
        let call = async |subject, scopes, action: &str, body: &Value| {
            deployment.call_as(test_caller(subject, scopes), "POST", action, body).await
        };
        let dora = json!({ "client_id": "desk", "subject_id": "DORA", "roles": [], "scopes": [] });
        let submitted =
            call("Dora", "operations.sign", SIGN, &with(payment("one"), "/client", dora)).await.ok();
        let approve = path(&submitted["operation"], "/approve");
        for own in ["Dora", "DORA", "dora"] {
            call(own, "operations.approve", &approve, &approval(own))
                .await
                .fails(403, "approver_not_permitted");
        }
        for (nth, spelling) in spellings.into_iter().enumerate() {
            // The body has the caller's name in another spelling than its credentials.
            let body = approval(spellings[(nth + 1) % spellings.len()]);
            let view = call(spelling, "operations.approve", &approve, &body).await.ok();
            let missing = json!([{ "group": null, "people": 1 }]);
            let counted = json!({ "approved": 1, "required": 2, "subjects": [spellings[1]], "missing": missing, "admit_not_before_ms": null });
            assert_eq!(
                (&view["approvals"], &view["state"]),
                (&counted, &json!("pending_approval")),
                "{spelling}"
            );
        }
        let awaits = async |subject: &str| {
            let (caller, list) = (test_caller(subject, "operations.read"), "/v1/operations?awaiting=me");
            let listed = deployment.call_as(caller, "GET", list, &Value::Null).await.ok();
            listed["operations"].as_array().unwrap().len()
        };
        assert_eq!([awaits(spellings[3]).await, awaits("dora").await, awaits("bob").await], [0, 0, 1]);
        let admitted = call("bob", "operations.approve", &approve, &approval("bob")).await.ok();
        let subjects = json!([spellings[1], "bob"]);
        assert_eq!((&admitted["state"], &admitted["approvals"]["subjects"]), (&json!("admitted"), &subjects));
    }
}
