//! The key and the log proof, which are not part of the events.

use super::Forgery;
use serde_json::{Value, json};

#[tokio::test]
async fn key_with_another_id_or_public_key_is_found() {
    for forgery in [Forgery::of_payment().await, Forgery::of_output_key().await] {
        assert_eq!(forgery.findings(&forgery.evidence), [""; 0]);
        for (name, value) in [
            ("key_id", "11".repeat(32)),
            ("public_key_artifact_ref", format!("frost-ed25519-sha512:{}", "11".repeat(32))),
            // The generator's x, which is a key.
            (
                "public_key_artifact_ref",
                "frost-secp256k1-sha256-tr:79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
                    .to_owned(),
            ),
        ] {
            let forged = forgery.forger.with_key(|key| key[name] = json!(value)).await;
            forgery.assert_finds_only(&forged, &format!("/key/{name}: "));
        }
    }
}

#[tokio::test]
async fn key_that_differs_from_its_signed_note_is_found() {
    let forgery = Forgery::of_payment().await;
    let mut altered = forgery.evidence.clone();
    altered["key"]["state"] = json!("retired");
    forgery.assert_finds_only(&altered, "/key: differs from the statement in `key_note`");
    let mut altered = forgery.evidence.clone();
    altered["key_note"] = json!("no note");
    forgery.assert_finds_only(&altered, "/key_note: ");
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
