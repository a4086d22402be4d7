//! Recoveries that state the helpers' contributions: what the helpers answer, what is refused, and what the nodes compare.

use crate::harness::custody::{
    KEYS, admit, create_key, execute, key, key_path, path, publish, recover, submit,
};
use crate::harness::samples::with;
use crate::harness::world::World;
use serde_json::{Value, json};

fn case() -> Value {
    json!({ "recovery_case_ref": "case-9", "recovering_participant": 2, "helper_participants": [1, 0] })
}

async fn contributions(world: &World) -> Value {
    world.post(&key_path("vault", "/recover/contributions"), &case()).await.ok()
}

/// The recovery of [`case`], with these contributions in the order of its helpers.
fn recovery(epoch: &str, cids: Value, root: &Value) -> Value {
    let body = with(recover(epoch), "/helper_participants", json!([1, 0]));
    with(with(body, "/helper_share_cids", cids), "/expected_helper_admission_root", root.clone())
}

#[tokio::test]
async fn recovery_with_the_contributions_that_its_helpers_stated_is_executed() {
    let world = World::start().await;
    create_key(&world, "vault").await;
    let stated = contributions(&world).await;
    assert_eq!(stated, contributions(&world).await, "the helpers keep no state");
    let key = world.get(&key_path("vault", "")).await.ok();
    assert_eq!(stated["active_epoch_root"], key["active_epoch_root"]);
    let (cids, root) = (&stated["helper_share_cids"], &stated["expected_helper_admission_root"]);
    let admissions = stated["admissions"].as_array().unwrap();
    let by_helper: Vec<_> = admissions.iter().map(|it| (&it["participant"], &it["cid"])).collect();
    assert_eq!(by_helper, [(&json!(0), &cids[0]), (&json!(1), &cids[1])]);
    // The request names helper 1 first.
    let body = recovery("2", json!([cids[1], cids[0]]), root);
    let submitted = world.post(&key_path("vault", "/recover"), &body).await.ok()["operation"].clone();
    assert_eq!(submitted["intent"]["helper_share_cids"], *cids, "{submitted}");
    assert_eq!(submitted["warnings"], json!([]), "{submitted}");
    let recovered = publish(&world, &key_path("vault", "/recover"), &body).await;
    assert_eq!(recovered["state"], "published", "{recovered}");
    let next = contributions(&world).await;
    assert_ne!((&next["helper_share_cids"], &next["expected_helper_admission_root"]), (cids, root));
}

#[tokio::test]
async fn recovery_with_other_contributions_fails_and_leaves_the_key_as_it_was() {
    let world = World::start().await;
    let before = create_key(&world, "vault").await;
    let stated = contributions(&world).await;
    let (cids, root) = (&stated["helper_share_cids"], &stated["expected_helper_admission_root"]);
    let other = json!("ab".repeat(32));
    let bodies = [
        recovery("2", json!([cids[0], cids[1]]), &Value::Null),
        recovery("3", json!([cids[1], other]), &Value::Null),
        recovery("4", json!([cids[1], cids[0]]), &other),
        recovery("5", json!([]), &other),
        with(recovery("6", json!([]), root), "/recovery_case_ref", json!("case-8")),
    ];
    for body in bodies {
        let admitted = admit(&world, &key_path("vault", "/recover"), &body).await;
        world.post_nothing(&path(&admitted, "/execute")).await.fails(409, "operation_failed");
        let failed = world.get(&path(&admitted, "")).await.ok();
        let failure = &failed["failure"];
        assert_eq!(failure["code"], "package_refused", "{failed}");
        assert_eq!(failure["culprits"], json!([]), "no helper is to blame: {failed}");
    }
    let after = world.get(&key_path("vault", "")).await.ok();
    assert_eq!(
        (&after["state"], &after["active_epoch_root"]),
        (&before["state"], &before["active_epoch_root"])
    );
    let body = recovery("7", json!([]), root);
    assert_eq!(publish(&world, &key_path("vault", "/recover"), &body).await["state"], "published");
}

#[tokio::test]
async fn made_up_contributions_are_recorded_with_a_warning_in_development() {
    let world = World::start().await;
    create_key(&world, "vault").await;
    let root = json!("root");
    let body = recovery("2", json!(["cid-1", "cid-0"]), &root);
    let submitted = submit(&world, &key_path("vault", "/recover"), &body).await;
    assert_eq!(submitted["intent"]["helper_share_cids"], json!(["cid-1", "cid-0"]));
    let warnings: Vec<_> = submitted["warnings"].as_array().unwrap().iter().collect();
    let named: Vec<_> = warnings.iter().map(|it| (&it["code"], &it["pointer"])).collect();
    let code = json!("contributions_not_compared");
    assert_eq!(
        named,
        [(&code, &json!("/helper_share_cids")), (&code, &json!("/expected_helper_admission_root"))]
    );
    assert_eq!(publish(&world, &key_path("vault", "/recover"), &body).await["state"], "published");
}

#[tokio::test]
async fn production_refuses_contributions_that_cannot_be_compared() {
    let world = World::ticking_in_production().await;
    create_key(&world, "vault").await;
    let recover_at = key_path("vault", "/recover");
    let id = "ab".repeat(32);
    let refused = async |cids: Value, root: Value| {
        world.post(&recover_at, &recovery("2", cids, &root)).await.fails(400, "invalid_json")
    };
    let message = refused(json!([id, "cid-0"]), Value::Null).await;
    assert!(message.starts_with("`/helper_share_cids/1` must be a content id"), "{message}");
    let message = refused(json!([id, id.to_uppercase()]), Value::Null).await;
    assert!(message.starts_with("`/helper_share_cids/1` must be a content id"), "{message}");
    let message = refused(json!([]), json!("root")).await;
    assert!(message.starts_with("`/expected_helper_admission_root` must be 64"), "{message}");
    for cids in [json!([id]), json!([id, id, id])] {
        let message = refused(cids, Value::Null).await;
        let expected = "`/helper_share_cids` must have `2` content ids, one for each helper, or none";
        assert_eq!(message, expected);
    }
    submit(&world, &recover_at, &recovery("2", json!([id, id]), &json!(id))).await;
    submit(&world, &recover_at, &recovery("3", json!([]), &Value::Null)).await;
}

#[tokio::test]
async fn contributions_are_asked_for_an_active_key_and_its_holders_only() {
    let world = World::ticking().await;
    let ask = async |key_ref: &str, body: &Value| {
        world.post(&key_path(key_ref, "/recover/contributions"), body).await
    };
    ask("vault", &case()).await.fails(404, "custody_key_not_found");
    submit(&world, KEYS, &key("vault")).await;
    ask("vault", &case()).await.fails(409, "custody_key_not_active");
    execute(&world, KEYS, &key("vault")).await;
    let refused = [
        ("/recovering_participant", json!(7), "`/recovering_participant` must be participants of the key"),
        ("/recovering_participant", json!(1), "`/helper_participants` must not name participant `1`"),
        ("/helper_participants", json!([0, 9]), "`/helper_participants` must be participants of the key"),
        ("/recovery_case_ref", json!(""), "`/recovery_case_ref` must not be empty"),
    ];
    for (pointer, value, expected) in refused {
        let message = ask("vault", &with(case(), pointer, value)).await.fails(400, "invalid_json");
        assert!(message.starts_with(expected), "{message}");
    }
    ask("vault", &case()).await.ok();
    std::fs::remove_file(world.folder().join("nodes/node-1.db")).unwrap();
    let message = ask("vault", &case()).await.fails(503, "runtime_unavailable");
    assert!(message.contains("participant 1"), "{message}");
}
