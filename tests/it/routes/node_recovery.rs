use super::UNKNOWN;
use crate::harness::samples::{admit, path, payment, publish, with};
use crate::harness::world::World;
use serde_json::{Value, json};

#[tokio::test]
async fn recovery_is_idempotent_by_effect() {
    let world = World::start().await;
    let operation = publish(&world, &payment("recover")).await;
    let recover = path(&operation, "/node-recovery");
    let evidence = world.get(&path(&operation, "/evidence")).await.ok();
    let known = evidence["effects"][0].clone();
    let first = world.post(&recover, &known).await.ok();
    assert_eq!(first["recovery"]["outcome"], "complete");
    assert_eq!(first["recovery"]["participants"], json!([0, 1, 2]));
    assert_eq!(world.post(&recover, &known).await.ok(), first);
    let other = with(known, "/result_root", json!("0".repeat(64)));
    world.post(&recover, &other).await.fails(409, "recovery_conflict");

    let of_unknown_effect = json!({ "effect_id": "unknown", "result_root": "1".repeat(64) });
    let unknown = world.post(&recover, &of_unknown_effect).await.ok();
    assert_eq!(unknown["recovery"]["outcome"], "unknown_effect");
    assert_eq!(world.post(&recover, &of_unknown_effect).await.ok(), unknown);
    let changed = with(of_unknown_effect, "/result_root", json!("2".repeat(64)));
    world.post(&recover, &changed).await.fails(409, "recovery_conflict");
}

#[tokio::test]
async fn invalid_body_is_refused_by_member() {
    let world = World::start().await;
    let operation = publish(&world, &payment("bodies")).await;
    let recover = path(&operation, "/node-recovery");
    let valid = json!({ "effect_id": "e", "result_root": "0".repeat(64) });
    let cases = [
        ("/effect_id", Value::Null, "`/effect_id` is required"),
        ("/effect_id", json!(""), "`/effect_id` must not be empty"),
        ("/result_root", json!("0"), "`/result_root` must be 64 lowercase hexadecimal characters"),
        (
            "/secret_kernel_payload",
            json!("s"),
            "`/secret_kernel_payload` must be an object or null, not a string",
        ),
    ];
    for (pointer, value, expected) in cases {
        let message =
            world.post(&recover, &with(valid.clone(), pointer, value)).await.fails(400, "invalid_json");
        assert_eq!(message, expected);
    }
    let large = json!({ "effect_id": "e", "result_root": "0".repeat(64), "secret_kernel_payload": { "x": "y".repeat(900_000) } });
    world.post(&recover, &large).await.ok();
    let larger = with(large, "/secret_kernel_payload", json!({ "x": "y".repeat(1_100_000) }));
    world.post(&recover, &larger).await.fails(413, "payload_too_large");
    let unknown = format!("/v1/operations/{UNKNOWN}/node-recovery");
    world.post(&unknown, &valid).await.fails(404, "operation_not_found");
}

#[tokio::test]
async fn recovery_before_the_effect_does_not_claim_its_id() {
    let world = World::start().await;
    let operation = admit(&world, &payment("early")).await;
    let recover = path(&operation, "/node-recovery");
    let effect_id = format!("{}.execute.1", operation["operation_id"].as_str().unwrap());
    let early = json!({ "effect_id": effect_id, "result_root": "a".repeat(64) });
    assert_eq!(world.post(&recover, &early).await.ok()["recovery"]["outcome"], "unknown_effect");
    let executed = world.post_nothing(&path(&operation, "/execute")).await.ok();
    let right = with(early.clone(), "/result_root", executed["runtime"]["result_ref"].clone());
    assert_eq!(world.post(&recover, &right).await.ok()["recovery"]["outcome"], "complete");
    world.post(&recover, &early).await.fails(409, "recovery_conflict");
}

#[tokio::test]
async fn unknown_effect_names_do_not_hide_a_complete_effect() {
    let world = World::start().await;
    let operation = publish(&world, &payment("junk")).await;
    let recover = path(&operation, "/node-recovery");
    for number in 0..70 {
        let junk = json!({ "effect_id": format!("junk-{number}"), "result_root": "0".repeat(64) });
        world.post(&recover, &junk).await.ok();
    }
    let effect_id = format!("{}.execute.1", operation["operation_id"].as_str().unwrap());
    let known = json!({ "effect_id": effect_id, "result_root": operation["runtime"]["result_ref"] });
    assert_eq!(world.post(&recover, &known).await.ok()["recovery"]["outcome"], "complete");
}
