use crate::harness::custody;
use crate::harness::samples::with;
use crate::harness::world::World;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Every POST route with an example body, and that body. No key or operation of these names exists: bodies are read first.
fn bodies() -> Vec<(String, Value)> {
    let document = gateway_api::openapi::document();
    let posts = document["paths"].as_object().unwrap().iter().filter_map(|(path, item)| {
        let examples = item["post"]["requestBody"]["content"]["application/json"]["examples"].as_object()?;
        let path = path
            .replace("{operationId}", &"0".repeat(64))
            .replace("{keyRef}", "none")
            .replace("{name}", "none");
        Some((path, examples.values().next_back().unwrap()["value"].clone()))
    });
    posts.collect()
}

/// Pointers to all values of an object, at any depth; an array is one value.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    for (name, member) in value.as_object().into_iter().flatten() {
        let pointer = format!("{at}/{name}");
        pointers(member, &pointer, found);
        found.push(pointer);
    }
}

/// The faults that the answer lists.
async fn faults(world: &World, path: &str, body: &Value) -> BTreeSet<String> {
    let answer = world.post(path, body).await;
    let faults = answer.json["errors"].as_array().cloned().unwrap_or_default();
    if !faults.is_empty() {
        let code = if path.ends_with("/execute") { "invalid_execute_request" } else { "invalid_json" };
        answer.fails(400, code);
    }
    let texts: BTreeSet<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), faults.len(), "{path}: a fault is listed twice: {faults:?}");
    texts
}

#[tokio::test]
async fn two_faults_anywhere_in_a_body_are_both_listed_and_nothing_else() {
    let world = World::ticking().await;
    let (mut n_pairs, mut n_single) = (0, 0);
    for (path, valid) in bodies() {
        assert!(faults(&world, &path, &valid).await.is_empty(), "{path}: the example is valid");
        let mut all = Vec::new();
        pointers(&valid, "", &mut all);
        let mut single = Vec::new();
        for pointer in &all {
            for wrong in [json!(null), json!(true), json!(""), json!([9, 9]), json!(70_000)] {
                let found = faults(&world, &path, &with(valid.clone(), pointer, wrong.clone())).await;
                assert!(found.len() <= 1, "{path} {pointer} {wrong}: {found:?}");
                single.extend(found.first().map(|fault| (pointer, wrong, fault.clone())));
            }
        }
        n_single += single.len();
        for (index, (one, wrong_one, fault_one)) in single.iter().enumerate().step_by(3) {
            for (other, wrong_other, fault_other) in single.iter().skip(index).step_by(2) {
                if other.starts_with(one.as_str()) || one.starts_with(other.as_str()) {
                    continue;
                }
                let body = with(with(valid.clone(), one, wrong_one.clone()), other, wrong_other.clone());
                let found = faults(&world, &path, &body).await;
                let both = BTreeSet::from([fault_one.clone(), fault_other.clone()]);
                assert_eq!(found, both, "{path}: {body}");
                n_pairs += 1;
            }
        }
    }
    assert!(n_single > 200 && n_pairs > 2_000, "{n_single} faults, {n_pairs} pairs");
}

#[tokio::test]
async fn errors_have_pointer_code_and_message() {
    let world = World::ticking().await;
    let body = json!({
        "idempotency_key": "",
        "key_ref": "bad ",
        "payment": { "from_account": 7, "to_account": "b", "currency": "EUR" },
        "bip32": { "network": "bitcoin", "path": "0" },
        "requested_participants": [0, 1, 1, 2, 3],
        "threshold": 4,
        "publication_mode": "later",
    });
    let answer = world.post("/v1/operations/sign", &body).await;
    let errors: Vec<[String; 3]> = answer.json["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| {
            assert_eq!(error.as_object().unwrap().len(), 3);
            ["pointer", "code", "message"].map(|name| error[name].as_str().unwrap().to_owned())
        })
        .collect();
    insta::assert_debug_snapshot!(errors);
    let message = answer.fails(400, "invalid_json");
    assert!(message.ends_with("(the first of 8 faults, which `errors` lists)"), "{message}");
}

/// The example's helpers do not fit this recovering participant.
#[tokio::test]
async fn fault_beside_a_value_that_no_example_fits_hides_no_other() {
    let world = World::ticking().await;
    let body = with(custody::recover("2"), "/recovering_participant", json!(0));
    let body = with(with(body, "/helper_participants", json!([1, 1])), "/reason", json!(""));
    let answer = world.post("/v1/custody/keys/none/recover", &body).await;
    let errors = answer.json["errors"].as_array().unwrap().iter();
    let pointers: Vec<_> = errors.map(|error| error["pointer"].as_str().unwrap()).collect();
    assert_eq!(pointers, ["/helper_participants", "/reason"]);
}

#[tokio::test]
async fn unknown_members_are_all_listed_where_they_are_rejected() {
    let world = World::with(&[("unknown_fields", "reject")]).await;
    let body = json!({ "subject_id": "", "roles": [], "approved_at_ms": 1, "a": 1, "b": {}, "x/y": 2 });
    let path = format!("/v1/operations/{}/approve", "0".repeat(64));
    let answer = world.post(&path, &body).await;
    let errors = answer.json["errors"].as_array().unwrap();
    let listed: Vec<_> = errors
        .iter()
        .map(|error| (error["pointer"].as_str().unwrap(), error["code"].as_str().unwrap()))
        .collect();
    let unknown = "unknown_member";
    assert_eq!(
        listed,
        [("/a", unknown), ("/b", unknown), ("/x~1y", unknown), ("/subject_id", "invalid_value")]
    );
}

#[tokio::test]
async fn at_most_sixteen_faults_are_listed() {
    let world = World::with(&[("unknown_fields", "reject")]).await;
    let members = (0..40).map(|number| (format!("m{number:02}"), json!(number)));
    let body = Value::Object(members.collect());
    let path = format!("/v1/operations/{}/approve", "0".repeat(64));
    let answer = world.post(&path, &body).await;
    assert_eq!(answer.json["errors"].as_array().unwrap().len(), 16);
    for body in ["", "[]", "{", "null", "7"] {
        let answer = world.post_text("/v1/custody/keys", body).await;
        assert_eq!(answer.json["errors"].as_array().unwrap().len(), 1, "{body}");
        assert_eq!(answer.json["errors"][0]["pointer"], "", "{body}");
    }
}
