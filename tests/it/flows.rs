//! Payments from submission to publication.

use crate::harness::custody::{create_key, key_path, refresh, sign};
use crate::harness::process::{Process, SIGN};
use crate::harness::samples::{admit, approval, path, payment, publication, publish, submit, with};
use crate::harness::verify;
use crate::harness::world::World;
use serde_json::{Value, json};

#[tokio::test]
async fn quickstart_publishes_a_signature_that_other_libraries_verify() {
    let world = World::start().await;
    let operation = submit(&world, &payment("quickstart")).await;
    assert_eq!(operation["state"], "pending_approval");
    assert_eq!(operation["next_actions"], json!(["approve"]));
    let zero = "0".repeat(64);
    assert_eq!(operation["runtime"]["admission_hash"], json!(zero));
    assert_eq!(operation["runtime"]["policy_receipt_id"], "");

    let one = world.post(&path(&operation, "/approve"), &approval("alice")).await.ok();
    assert_eq!((&one["state"], &one["approvals"]["approved"]), (&json!("pending_approval"), &json!(1)));
    let two = world.post(&path(&operation, "/approve"), &approval("bob")).await.ok();
    assert_eq!(two["state"], "admitted");
    assert_ne!(two["runtime"]["admission_hash"], json!(zero));
    assert_eq!(two["next_actions"], json!(["execute"]));

    let executed = world.post_nothing(&path(&operation, "/execute")).await.ok();
    assert_eq!((&executed["state"], &executed["result"]), (&json!("executed"), &json!({})));
    let publication = with(publication(), "/expected_result_ref", executed["runtime"]["result_ref"].clone());
    let published = world.post(&path(&operation, "/publish"), &publication).await.ok();
    assert_eq!(
        (&published["state"], &published["runtime"]["phase"]),
        (&json!("published"), &json!("Published"))
    );
    let own = json!({ "self": { "method": "GET", "href": path(&operation, "") } });
    assert_eq!((&published["next_actions"], &published["links"]), (&json!([]), &own));
    verify::bip340(&published);
}

#[tokio::test]
async fn following_the_links_reaches_publication() {
    let world = World::start().await;
    let mut view = submit(&world, &payment("links")).await;
    let bodies = [
        ("approve", approval("alice")),
        ("approve", approval("bob")),
        ("execute", json!({})),
        ("publish", publication()),
    ];
    for (action, body) in bodies {
        assert_eq!(view["next_actions"], json!([action]));
        let link = &view["links"][action];
        assert_eq!(link["method"], "POST");
        view = world.post(link["href"].as_str().unwrap(), &body).await.ok();
    }
    assert_eq!(view["state"], "published");
}

#[tokio::test]
async fn automatic_mode_publishes_without_a_publish_request() {
    let world = World::start().await;
    let operation = admit(&world, &with(payment("auto"), "/publication_mode", json!("automatic"))).await;
    let executed = world.post_nothing(&path(&operation, "/execute")).await.ok();
    assert_eq!((&executed["state"], &executed["next_actions"]), (&json!("executed"), &json!([])));
    assert_eq!((&executed["in_progress"], &executed["result"]), (&json!("publication"), &json!({})));
    let now = world.get(executed["links"]["self"]["href"].as_str().unwrap()).await.ok();
    assert_eq!(now["in_progress"], Value::Null);
    assert_eq!((&now["state"], &now["next_actions"]), (&json!("published"), &json!([])));
    verify::bip340(&now);
}

#[tokio::test]
async fn child_key_signs_under_its_own_public_key() {
    let world = World::start().await;
    let child = with(payment("child"), "/bip32", json!({ "network": "bitcoin", "path": "0/7" }));
    let child = publish(&world, &child).await;
    let parent = publish(&world, &payment("parent")).await;
    verify::bip340(&child);
    verify::bip340(&parent);
    assert_ne!(child["result"]["public_key_hex"], parent["result"]["public_key_hex"]);
}

#[tokio::test]
async fn operation_without_a_key_uses_the_development_key_of_its_participants() {
    let world = World::start().await;
    let one = publish(&world, &with(payment("no-key-1"), "/key_ref", Value::Null)).await;
    let two = publish(&world, &with(payment("no-key-2"), "/key_ref", Value::Null)).await;
    verify::bip340(&one);
    assert_eq!(one["intent"]["key_ref"], "development/2-of-0-1-2");
    assert_eq!(one["result"]["public_key_hex"], two["result"]["public_key_hex"]);
}

#[tokio::test]
async fn operation_that_requires_no_approvals_is_admitted_on_submission() {
    let world = World::with(&[("required_approvals", "0")]).await;
    assert_eq!(submit(&world, &payment("none")).await["state"], "admitted");
}

#[tokio::test]
async fn repeating_any_step_gives_the_same_answer() {
    let world = World::start().await;
    let view = publish(&world, &payment("repeat")).await;
    let again = world.post(SIGN, &payment("repeat")).await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.ok()["operation"], view);
    assert_eq!(world.post_nothing(&path(&view, "/execute")).await.ok(), view);
    assert_eq!(world.post(&path(&view, "/publish"), &publication()).await.ok(), view);
    assert_eq!(world.post(&path(&view, "/approve"), &approval("alice")).await.ok(), view);
}

#[tokio::test]
async fn different_body_under_the_same_idempotency_key_is_warned_about_and_recorded() {
    let world = World::start().await;
    let first = submit(&world, &payment("same")).await;
    let other = with(payment("same"), "/payment/amount_minor", json!(1));
    let again = world.post(SIGN, &other).await;
    assert!(again.header("warning").contains("another body"), "{:?}", again.headers);
    let again = again.ok()["operation"].clone();
    assert_eq!(again["intent"]["amount_minor"], first["intent"]["amount_minor"]);
    let audit = world.get(&path(&first, "/audit-replay")).await.ok();
    assert_eq!(audit["events"][2]["event"]["change"]["type"], "replay_noted");
}

#[tokio::test]
async fn different_body_is_refused_for_a_caller_that_rejects_it() {
    let world = World::start().await;
    create_key(&world, "vault").await;
    let requests = [
        (SIGN.to_owned(), payment("same"), "/payment/amount_minor", json!(1)),
        (key_path("vault", "/sign"), sign("same"), "/action", json!("burn")),
        (key_path("vault", "/refresh"), refresh("2"), "/reason", json!("other")),
    ];
    for (path, body, pointer, value) in requests {
        let reject = [("idempotency-mismatch", "reject")];
        let first = world.call_as(&reject, "POST", &path, &body).await.ok()["operation"].clone();
        let same = world.call_as(&reject, "POST", &path, &body).await;
        assert_eq!(same.header("idempotency-replayed"), "true");
        same.ok();
        let other = with(body, pointer, value);
        let message = world.call_as(&reject, "POST", &path, &other).await.fails(409, "idempotency_mismatch");
        assert!(message.contains(first["operation_id"].as_str().unwrap()), "{message}");
        world.post(&path, &other).await.ok();
        let unknown = [("idempotency-mismatch", "warn")];
        world.call_as(&unknown, "POST", &path, &other).await.fails(400, "invalid_request");
    }
}

#[test]
fn submitted_operation_survives_a_stop_and_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    let submitted = process.post(SIGN, Some(&payment("stop")));
    let (ended, log) = process.terminate();
    assert!(ended.success(), "{log:#?}");
    assert!(log.iter().any(|line| line.contains("operation-gateway stopped")), "{log:#?}");
    let process = Process::start(folder.path(), None, &[]);
    assert_eq!(process.get(&path(&submitted["operation"], "")), submitted["operation"]);
}
