//! The key, the statement and the log proof, which are not part of the events.

use super::Forgery;
use serde_json::{Value, json};

#[tokio::test]
async fn key_that_does_not_follow_from_the_events_is_found() {
    for forgery in [Forgery::of_payment().await, Forgery::of_creation().await] {
        assert_eq!(forgery.findings(&forgery.evidence), [""; 0]);
        for name in
            ["key_id", "key_ref", "public_key_artifact_ref", "active_epoch", "active_epoch_root", "successor"]
        {
            let mut altered = forgery.evidence.clone();
            altered["key"][name] = json!("11".repeat(32));
            forgery.assert_finds_only(&altered, &format!("/key/{name}: differs from the value that follows"));
        }
    }
}

#[tokio::test]
async fn statement_that_is_not_signed_is_found() {
    let forgery = Forgery::of_payment().await;
    let mut altered = forgery.evidence.clone();
    altered["statement"] = json!("no note");
    forgery.assert_finds_only(&altered, "/statement: ");
}

#[tokio::test]
async fn unsigned_data_in_a_log_proof_is_found() {
    let forgery = Forgery::of_payment().await;
    let mut altered = forgery.evidence.clone();
    let proof = altered["log"]["proof"].as_str().unwrap();
    altered["log"]["proof"] = json!(proof.replacen("\nindex", "\nextra AAAA\nindex", 1));
    forgery.assert_finds_only(&altered, "/log/proof: has extra data");
    let mut altered = forgery.evidence.clone();
    altered["log"]["index"] = json!(altered["log"]["index"].as_u64().unwrap() + 1);
    forgery.assert_finds_only(&altered, "/log/index: ");
    let mut altered = forgery.evidence.clone();
    altered["log"]["consistency"].as_array_mut().unwrap().push(Value::from("11".repeat(32)));
    forgery.assert_finds(&altered, "/log/consistency: ");
}
