//! Custody keys with real nodes: creation, signing, changes of keys and their conflicts.

use crate::harness::custody::{
    KEYS, admit, create_key, execute, key, key_path, path, publish, recover, refresh, reshare, rotate, sign,
    submit,
};
use crate::harness::samples::{payment, with};
use crate::harness::verify;
use crate::harness::world::World;
use serde_json::{Value, json};

#[tokio::test]
async fn custody_signatures_verify_in_other_libraries() {
    for profile in ["frost-ed25519-sha512", "frost-secp256k1-sha256-tr"] {
        let world = World::start().await;
        let create = submit(&world, KEYS, &with(key("vault"), "/signature_profile", json!(profile))).await;
        assert_eq!(
            (&create["state"], &create["next_actions"]),
            (&json!("pending_approval"), &json!(["approve"]))
        );
        assert!(create["links"]["approve"]["href"].as_str().unwrap().starts_with("/v1/custody/operations/"));
        let body = with(key("vault"), "/signature_profile", json!(profile));
        execute(&world, KEYS, &body).await;
        let create = world.get(&path(&create, "")).await.ok();
        assert_eq!(create["state"], "published", "key creation is published automatically");
        let key = world.get(&key_path("vault", "")).await.ok();
        let public_key =
            key["public_key_artifact_ref"].as_str().unwrap().strip_prefix(&format!("{profile}:")).unwrap();

        let signed = publish(&world, &key_path("vault", "/sign"), &sign("move-1")).await;
        assert_eq!(
            (&signed["state"], &signed["runtime"]["phase"]),
            (&json!("published"), &json!("Published"))
        );
        assert_eq!(signed["result"]["signed_digest"], "5a".repeat(32));
        assert_eq!(signed["result"]["public_key_hex"], public_key);
        verify::signature(&signed);
        let again = publish(&world, &key_path("vault", "/sign"), &sign("move-1")).await;
        assert_eq!(again, signed);
    }
}

#[tokio::test]
async fn automatic_mode_publishes_without_a_publish_request() {
    let world = World::start().await;
    create_key(&world, "vault").await;
    let body = with(sign("auto"), "/publication_mode", json!("automatic"));
    let signed = execute(&world, &key_path("vault", "/sign"), &body).await;
    assert_eq!((&signed["state"], &signed["next_actions"]), (&json!("executed"), &json!([])));
    let now = world.get(&path(&signed, "")).await.ok();
    assert_eq!(now["state"], "published");
    verify::signature(&now);
}

/// Active epoch, participants and threshold of a key.
fn share_set(key: &Value) -> (String, Value, u64) {
    (
        key["active_epoch"].as_str().unwrap().to_owned(),
        key["participants"].clone(),
        key["threshold"].as_u64().unwrap(),
    )
}

#[tokio::test]
async fn key_signs_after_every_kind_of_change() {
    let world = World::ticking().await;
    let original = create_key(&world, "vault").await;
    let view = async || world.get(&key_path("vault", "")).await.ok();
    let changes = [
        ("/refresh", refresh("2"), ("2", json!([0, 1, 2]), 2)),
        ("/recover", recover("3"), ("3", json!([0, 1, 2]), 2)),
        ("/reshare", reshare("a".repeat(64).as_str()), (&*"a".repeat(64), json!([1, 2, 3, 4]), 3)),
    ];
    for (action, body, (epoch, participants, threshold)) in changes {
        let before = view().await;
        let pending = submit(&world, &key_path("vault", action), &body).await;
        assert_eq!(
            (&pending["target_participants"], &pending["target_threshold"]),
            (&participants, &json!(threshold))
        );
        assert_eq!((&pending["target_key_ref"], &pending["asset_id"]), (&json!("vault"), &json!("btc")));
        assert_eq!(pending["target_epoch_hex"] == json!(epoch), epoch.len() == 64);
        let changed = execute(&world, &key_path("vault", action), &body).await;
        assert_eq!(changed["operation_type"], action[1..]);
        let after = view().await;
        assert_eq!(share_set(&after), (epoch.to_owned(), participants, threshold));
        assert_eq!(after["public_key_artifact_ref"], original["public_key_artifact_ref"]);
        assert_ne!(after["active_epoch_root"], before["active_epoch_root"]);
        assert_eq!(
            (&after["state"], &after["latest_operation_id"]),
            (&json!("active"), &changed["operation_id"])
        );
    }

    let pending = submit(&world, &key_path("vault", "/rotate"), &rotate("vault-2")).await;
    assert_eq!(
        (&pending["target_key_ref"], &pending["target_participants"]),
        (&json!("vault-2"), &json!([2, 3, 4]))
    );
    let reserved = world.get(&key_path("vault-2", "")).await.ok();
    assert_eq!((&reserved["state"], &reserved["replaces"]), (&json!("creating"), &json!("vault")));
    let rotated = execute(&world, &key_path("vault", "/rotate"), &rotate("vault-2")).await;
    let (old, new) = (view().await, world.get(&key_path("vault-2", "")).await.ok());
    assert_eq!((&old["state"], &old["replaced_by"]), (&json!("rotated"), &json!("vault-2")));
    assert_eq!((&new["state"], share_set(&new)), (&json!("active"), ("r-1".to_owned(), json!([2, 3, 4]), 2)));
    assert_ne!(new["public_key_artifact_ref"], old["public_key_artifact_ref"]);
    for key_ref in ["vault", "vault-2"] {
        let listed = world.get(&key_path(key_ref, "/operations")).await.ok();
        assert_eq!(listed["operations"][0]["operation_id"], rotated["operation_id"]);
    }
    let signers = with(sign("after"), "/requested_participants", json!([1, 2, 3]));
    let late = admit(&world, &key_path("vault", "/sign"), &signers).await;
    // A rotated key never signs again, so that the operation ends.
    assert_eq!(
        (&late["state"], &late["failure"]["code"]),
        (&json!("failed"), &json!("custody_key_not_active"))
    );
    world.post_nothing(&path(&late, "/execute")).await.fails(409, "custody_key_not_active");
    let signers = with(sign("after"), "/requested_participants", json!([2, 3, 4]));
    assert_eq!(execute(&world, &key_path("vault-2", "/sign"), &signers).await["state"], "executed");
}

#[tokio::test]
async fn signing_continues_during_a_key_change_and_a_second_change_waits() {
    let world = World::ticking().await;
    create_key(&world, "vault").await;
    let first = admit(&world, &key_path("vault", "/refresh"), &refresh("2")).await;
    let second = admit(&world, &key_path("vault", "/reshare"), &reshare("3")).await;
    let signature = admit(&world, &key_path("vault", "/sign"), &sign("meanwhile")).await;
    let late = admit(&world, &key_path("vault", "/sign"), &sign("late")).await;
    world.faults.set_unavailable(true);
    world.post_nothing(&path(&first, "/execute")).await.fails(503, "runtime_unavailable");
    assert_eq!(world.get(&key_path("vault", "")).await.ok()["state"], "refreshing");
    world.post_nothing(&path(&second, "/execute")).await.fails(409, "custody_key_busy");
    world.faults.set_unavailable(false);
    assert_eq!(world.post_nothing(&path(&signature, "/execute")).await.ok()["state"], "executed");
    assert_eq!(world.post_nothing(&path(&first, "/execute")).await.ok()["state"], "executed");
    // Epochs do not come back: an operation admitted in an earlier one ends, a change of the key and a signature alike.
    let message = world.post_nothing(&path(&second, "/execute")).await.fails(409, "epoch_conflict");
    assert!(message.contains("epoch `2`") && message.contains("submit it again"), "{message}");
    world.post_nothing(&path(&late, "/execute")).await.fails(409, "epoch_conflict");
    for ended in [second, late] {
        let ended = world.get(&path(&ended, "")).await.ok();
        assert_eq!(
            (&ended["state"], &ended["failure"]["code"]),
            (&json!("failed"), &json!("epoch_conflict"))
        );
        assert_eq!(ended["next_actions"], json!([]));
    }
}

#[tokio::test]
async fn failed_rotation_frees_the_new_name_and_keeps_the_old_key() {
    let world = World::ticking().await;
    create_key(&world, "vault").await;
    let rotation = admit(&world, &key_path("vault", "/rotate"), &rotate("vault-2")).await;
    world.faults.set_rejecting(true);
    world.post_nothing(&path(&rotation, "/execute")).await.fails(409, "operation_failed");
    let states = async || {
        let state = async |key_ref| world.get(&key_path(key_ref, "")).await.ok()["state"].clone();
        (state("vault").await, state("vault-2").await)
    };
    assert_eq!(states().await, (json!("active"), json!("failed")));
    world.faults.set_rejecting(false);
    let again = with(rotate("vault-2"), "/idempotency_key", json!("again"));
    execute(&world, &key_path("vault", "/rotate"), &again).await;
    assert_eq!(states().await, (json!("rotated"), json!("active")));
    world.post(KEYS, &key("vault-2")).await.fails(409, "custody_key_exists");
}

#[tokio::test]
async fn rotation_is_not_executable_under_the_payment_paths() {
    let world = World::ticking().await;
    create_key(&world, "vault").await;
    let rotation = admit(&world, &key_path("vault", "/rotate"), &rotate("treasury-1")).await;
    let payment = with(payment("p"), "/requested_participants", json!([2, 3, 4]));
    world.post("/v1/operations/sign", &payment).await.fails(409, "custody_key_not_active");
    assert_eq!(world.get(&path(&rotation, "")).await.ok()["state"], "admitted");
    assert_eq!(world.engine.reconcile().await, 0);
}

#[tokio::test]
async fn new_key_of_a_rotation_may_have_the_epoch_name_of_the_old_one() {
    let world = World::ticking().await;
    create_key(&world, "vault").await;
    let rotation = with(rotate("vault-2"), "/target_epoch", json!("1"));
    assert_eq!(execute(&world, &key_path("vault", "/rotate"), &rotation).await["state"], "executed");
    assert_eq!(world.get(&key_path("vault-2", "")).await.ok()["active_epoch"], "1");
}
