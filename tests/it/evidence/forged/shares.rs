//! New shares: the nodes' receipts state which epoch they staged and which result they published.

use super::Forgery;
use crate::harness::custody;
use gateway_domain::operation::Staged;
use serde_json::{Value, json};

#[tokio::test]
async fn published_result_must_match_the_staged_shares() {
    for forgery in Forgery::of_creation_and_refresh().await {
        let alter = |event: &mut Value| event["change"]["result_ref"] = json!("11".repeat(32));
        forgery.assert_alteration_found("executed", alter, "/result_ref: ").await;
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

/// A gateway withholds the publication, names a key of its own and signs the history again: the public key is only in the nodes' bytes.
#[tokio::test]
async fn public_key_is_read_from_the_shares_that_the_nodes_signed_for() {
    for forgery in Forgery::of_creation_and_refresh().await {
        let at = forgery.at("epoch_decided", "/staged/public/public_key_hex: the key of the shares is");
        let staged = forgery.forger.first("epoch_decided")["change"]["staged"].clone();
        for keeps_publication in [true, false] {
            let forged = forgery.forger.with_events(|events| {
                let n_kept = forgery.forger.index_of("published") + usize::from(keeps_publication);
                events.truncate(n_kept);
                let decided = forgery.forger.index_of("epoch_decided");
                let staged = &mut events[decided]["change"]["staged"];
                staged["public"]["public_key_hex"] = json!("11".repeat(32));
                // The attacker computes again whatever follows from the shares.
                let digest =
                    json!(serde_json::from_value::<Staged>(staged.clone()).unwrap().result_ref().unwrap());
                events[decided]["settles"]["result_root"] = digest.clone();
                let executed = forgery.forger.index_of("executed");
                events[executed]["change"]["result_ref"] = digest;
            });
            let forged = forged.await;
            forgery.assert_finds(&forged, &at);
            // The key that a reader sees is the nodes'.
            let made = format!(":{}", staged["public"]["public_key_hex"].as_str().unwrap());
            assert!(forged["key"]["public_key_artifact_ref"].as_str().unwrap().ends_with(&made), "{forged}");
        }
    }
}

/// The successor of a rotation is pinned under its own id.
#[tokio::test]
async fn keys_of_new_shares_are_those_in_the_roots() {
    let rotation = Forgery::of_change("/rotate", custody::rotate("cold-2")).await;
    for mut forgery in Forgery::of_creation_and_refresh().await.into_iter().chain([rotation]) {
        let target =
            forgery.forger.first("decision_signed")["change"]["admission"]["decision"]["target"].clone();
        let key_id = serde_json::from_value(target["key_id"].clone()).unwrap();
        let shown = if forgery.evidence["key"]["successor"].is_null() { "/key" } else { "/key/successor" };
        let made =
            forgery.evidence.pointer(shown).unwrap()["public_key_artifact_ref"].as_str().unwrap().to_owned();
        forgery.roots.keys.insert(key_id, made.clone());
        assert_eq!(forgery.findings(&forgery.evidence), [""; 0]);
        forgery.roots.keys.insert(key_id, format!("{}:{}", made.split_once(':').unwrap().0, "11".repeat(32)));
        let at = forgery.at("epoch_decided", "/staged/public/public_key_hex: the key in the roots is");
        forgery.assert_finds(&forgery.evidence, &at);
    }
}
