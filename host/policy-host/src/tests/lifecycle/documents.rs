//! Signed documents: those in the folder, and what happens to one that is refused.

use super::deployment::{Deployment, watch};
use crate::lifecycle::Lifecycle;
use ed25519_dalek::SigningKey;
use gateway_domain::policy::document::Document;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{DescribePolicies, EvaluatePolicy};
use gateway_policy::TrustPolicy;
use gateway_policy::testing::{NOW, author, key, public, rates, rates_bundle, role, signed_document};
use std::fs;

const LATER: EpochMs = EpochMs(NOW.0 + 1_000);

fn trust() -> TrustPolicy {
    TrustPolicy { documents: vec![role("rates", 1, &[&key(2), &key(3)])], ..author() }
}

fn offer(deployment: &Deployment, file: &str, document: &Document, signer: &SigningKey) {
    let envelope = signed_document(document, &[signer]).envelope;
    fs::create_dir_all(deployment.path("documents")).unwrap();
    let file = deployment.path("documents").join(file);
    fs::write(file, serde_json::to_vec(&envelope).unwrap()).unwrap();
}

/// The sequences of the documents that policies find.
fn found(lifecycle: &Lifecycle) -> Vec<u64> {
    lifecycle.host().documents().iter().map(|one| one.document.sequence).collect()
}

/// Checks that the only refusal is of documents, for this reason.
#[track_caller]
fn assert_refused(lifecycle: &Lifecycle, part: &str) {
    let refused = lifecycle.health().refused;
    assert_eq!(refused.iter().map(|it| it.offer).collect::<Vec<_>>(), ["documents"]);
    assert!(refused[0].why.contains(part), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_document_leaves_the_one_before_it_in_place() {
    let deployment = Deployment::new();
    deployment.trust(&trust());
    offer(&deployment, "rates.json", &rates(5, LATER), &key(2));
    let lifecycle = deployment.start(&rates_bundle(1, &key(1))).await;
    assert_eq!((found(&lifecycle), lifecycle.health().refused), (vec![5], vec![]));
    let expired = EpochMs(NOW.0 - 1);
    for (document, signer, part) in [
        (rates(4, LATER), key(2), "sequence 4, and another one with sequence 5"),
        (Document { content: 1.into(), ..rates(5, LATER) }, key(2), "sequence 5, and another one"),
        (rates(6, expired), key(2), "is valid until"),
        (rates(6, LATER), key(4), "signed by 0 of 1"),
        (Document { name: "holidays".into(), ..rates(6, LATER) }, key(2), "has `holidays`"),
    ] {
        offer(&deployment, "rates.json", &document, &signer);
        watch(&lifecycle).await;
        assert_eq!(found(&lifecycle), [5], "{part}");
        assert_refused(&lifecycle, part);
    }
    fs::write(deployment.path("documents/rates.json"), b"{").unwrap();
    watch(&lifecycle).await;
    assert_eq!(found(&lifecycle), [5]);
    assert_refused(&lifecycle, "not JSON");
    offer(&deployment, "rates.json", &rates(6, LATER), &key(3));
    watch(&lifecycle).await;
    assert_eq!((found(&lifecycle), lifecycle.health().refused), (vec![6], vec![]));
    let (folder, away) = (deployment.path("documents"), deployment.path("away"));
    fs::rename(&folder, &away).unwrap();
    watch(&lifecycle).await;
    assert_eq!(found(&lifecycle), [0_u64; 0], "the folder is withdrawn");
    fs::rename(&away, &folder).unwrap();
    watch(&lifecycle).await;
    assert_eq!(found(&lifecycle), [6], "and offered again");
    fs::remove_file(deployment.path("documents/rates.json")).unwrap();
    watch(&lifecycle).await;
    assert_eq!((found(&lifecycle), lifecycle.health().refused), (vec![], vec![]), "it is withdrawn");
}

#[tokio::test(flavor = "multi_thread")]
async fn document_of_a_revoked_key_is_no_longer_found() {
    let deployment = Deployment::new();
    deployment.trust(&trust());
    offer(&deployment, "rates.json", &rates(5, LATER), &key(2));
    let lifecycle = deployment.start(&rates_bundle(1, &key(1))).await;
    assert_eq!(found(&lifecycle), [5]);
    deployment.trust(&TrustPolicy { revoked: [public(&key(2))].into(), ..trust() });
    watch(&lifecycle).await;
    assert_eq!(found(&lifecycle), [0_u64; 0]);
    assert_refused(&lifecycle, "signed by 0 of 1");
    fs::write(deployment.path("trust.json"), b"{}").unwrap();
    offer(&deployment, "rates.json", &rates(5, LATER), &key(3));
    watch(&lifecycle).await;
    assert_eq!(found(&lifecycle), [0_u64; 0], "no roots, no documents");
    deployment.trust(&TrustPolicy { revoked: [public(&key(2))].into(), ..trust() });
    watch(&lifecycle).await;
    assert_eq!((found(&lifecycle), lifecycle.health().refused), (vec![5], vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn document_that_expired_is_reported() {
    let deployment = Deployment::new();
    deployment.trust(&trust());
    offer(&deployment, "rates.json", &rates(5, LATER), &key(2));
    let lifecycle = deployment.start(&rates_bundle(1, &key(1))).await;
    deployment.clock.set(LATER);
    watch(&lifecycle).await;
    assert_eq!(lifecycle.health().refused, []);
    deployment.clock.set(EpochMs(LATER.0 + 1));
    watch(&lifecycle).await;
    assert_refused(&lifecycle, "is valid until");
}
