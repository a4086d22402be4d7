//! New shares: the nodes' receipts state which epoch they staged and which result they published.

use super::Forgery;
use serde_json::{Value, json};

#[tokio::test]
async fn published_result_must_match_the_staged_shares() {
    for forgery in Forgery::of_creation_and_refresh().await {
        for (kind, pointer) in
            [("epoch_decided", "/change/staged/public/public_key_hex"), ("executed", "/change/result_ref")]
        {
            let alter = |event: &mut Value| *event.pointer_mut(pointer).unwrap() = json!("11".repeat(32));
            let forged = forgery.forger.with_event(kind, alter).await;
            forgery.assert_finds(&forged, &forgery.at("executed", "/result_ref: "));
        }
    }
}

#[tokio::test]
async fn staged_shares_must_match_the_admission() {
    for forgery in Forgery::of_creation_and_refresh().await {
        for (pointer, value) in [
            ("/epoch/name", json!("9")),
            ("/epoch/root", json!("11".repeat(32))),
            ("/participants", json!([0, 1, 2, 3])),
            ("/threshold", json!(3)),
            ("/public/package_hex", json!("11")),
        ] {
            let alter = |event: &mut Value| {
                *event["change"]["staged"].pointer_mut(pointer).unwrap() = value;
            };
            forgery.assert_alteration_found("epoch_decided", alter, "/staged: ").await;
        }
    }
}

#[tokio::test]
async fn key_must_have_the_public_key_of_its_shares() {
    for forgery in Forgery::of_creation_and_refresh().await {
        let other = format!("frost-ed25519-sha512:{}", "11".repeat(32));
        let forged = forgery.forger.with_key(|key| key["public_key_artifact_ref"] = json!(other)).await;
        forgery.assert_finds_only(
            &forged,
            "/key/public_key_artifact_ref: differs from the key of the published shares",
        );
    }
}
