//! The signature must be over the admitted digest, under the admitted key.

use super::{Alter, Forgery};
use gateway_domain::ids::KeyId;
use serde_json::{Value, json};

fn key_id(forgery: &Forgery) -> KeyId {
    serde_json::from_value(forgery.evidence["key_id"].clone()).unwrap()
}

#[tokio::test]
async fn signature_over_an_unadmitted_digest_is_found() {
    let forgery = Forgery::of_payment().await;
    let result_ref = forgery.forger.first("executed")["change"]["result_ref"].clone();
    let alterations: [(&str, Value, &str); 4] = [
        ("/change/result_ref", json!("11".repeat(32)), "/result_ref: "),
        ("/change/signature/signature_hex", json!("11".repeat(64)), "/signature: "),
        ("/change/signature/signature_profile", json!("none"), "/signature: "),
        ("/change/signature/signed_digest", result_ref, "/signature/signed_digest: "),
    ];
    for (pointer, value, rest) in alterations {
        let alter = |event: &mut Value| *event.pointer_mut(pointer).unwrap() = value;
        forgery.assert_alteration_found("executed", alter, rest).await;
    }
}

#[tokio::test]
async fn signature_by_unadmitted_or_too_few_signers_is_found() {
    let forgery = Forgery::of_payment().await;
    let alterations: [(Alter, &str); 2] = [
        (|decision| decision["participants"] = json!([0, 7]), "a signer was not admitted"),
        (|decision| decision["threshold"] = json!(9), "there are fewer signers than the threshold"),
    ];
    for (alter, what) in alterations {
        let forged = forgery.forger.with_decision(alter).await;
        forgery.assert_finds(&forged, &forgery.at("executed", &format!("/signature/signers: {what}")));
    }
}

#[tokio::test]
async fn signature_without_an_admission_is_found() {
    let forgery = Forgery::of_payment().await;
    let decided = forgery.forger.index_of("decision_signed");
    let executed = forgery.forger.index_of("executed") - 1;
    let forged = forgery.forger.with_events(|events| drop(events.remove(decided))).await;
    forgery.assert_finds(&forged, &format!("/events/{executed}/event/change: a signature exists"));
}

#[tokio::test]
async fn signature_under_an_unadmitted_child_key_is_found() {
    let forgery = Forgery::of_child_key().await;
    let alter = |decision: &mut Value| decision["derivation"]["public_key_hex"] = json!("11".repeat(32));
    let forged = forgery.forger.with_decision(alter).await;
    forgery.assert_finds(
        &forged,
        &forgery.at("executed", "/signature/public_key_hex: the admitted derived key"),
    );
}

/// Pinning the parent key permits a signature under its child key.
#[tokio::test]
async fn signature_under_another_key_than_the_pinned_one_is_found() {
    let mut forgery = Forgery::of_payment().await;
    let at = "/intent/public_key_artifact_ref: the key in the roots";
    forgery.roots.keys.insert(key_id(&forgery), format!("frost-ed25519-sha512:{}", "11".repeat(32)));
    forgery.assert_finds(&forgery.evidence, at);
    let mut child = Forgery::of_child_key().await;
    let key = child.evidence["key"]["public_key_artifact_ref"].as_str().unwrap().to_owned();
    child.roots.keys.insert(key_id(&child), key);
    assert_eq!(child.findings(&child.evidence), [""; 0]);
}
