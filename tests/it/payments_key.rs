//! A payment is signed with the key's child for payments and nothing else is, so that no caller can have the signature of a payment as
//! that of a digest, and one key does for both families.

use crate::harness::custody::{self, KEYS, create_key, execute, key, key_path, refresh, rotate, sign};
use crate::harness::process::SIGN;
use crate::harness::samples::{self, payment, with};
use crate::harness::verify;
use crate::harness::world::World;
use gateway_domain::ids::KeyId;
use gateway_domain::intent::SIGNATURE_PROFILES;
use gateway_domain::key::payments_public_key;
use gateway_domain::signature::{self, SignatureError};
use serde_json::{Value, json};

fn payment_on(key_ref: &str, name: &str) -> Value {
    with(payment(&format!("{name} on {key_ref}")), "/key_ref", json!(key_ref))
}

/// A payment by the key's child `0/7` for payments.
fn child_payment_on(key_ref: &str, name: &str) -> Value {
    with(payment_on(key_ref, name), "/bip32", json!({ "network": "bitcoin", "path": "0/7" }))
}

async fn view(world: &World, key_ref: &str) -> Value {
    world.get(&key_path(key_ref, "")).await.ok()
}

/// The attack that a key of one family was to prevent, with a client that knows only the interface.
#[tokio::test]
async fn digest_of_a_denied_payment_signed_as_a_custody_signature_is_no_payment() {
    let world = World::start().await;
    for profile in SIGNATURE_PROFILES {
        let name = format!("key-of-{profile}");
        execute(&world, KEYS, &with(key(&name), "/signature_profile", json!(profile))).await;
        let denied = with(payment_on(&name, "denied"), "/payment/amount_minor", json!(-1));
        world.post(SIGN, &denied).await.fails(403, "policy_rejected");
        // Its digest is that of the payment which the gateway would have signed: anyone can compute it.
        let paid = samples::publish(&world, &payment_on(&name, "paid")).await;
        verify::signature(&paid);
        let digest = &paid["result"]["signed_digest"];
        let forgery = with(sign("forgery"), "/request_digest", digest.clone());
        let forged = custody::publish(&world, &key_path(&name, "/sign"), &forgery).await;
        verify::signature(&forged);
        assert_eq!(forged["result"]["signed_digest"], *digest);
        let key = view(&world, &name).await;
        assert_eq!(forged["result"]["public_key_hex"], key["public_key_hex"]);
        assert_eq!(paid["result"]["public_key_hex"], key["payments_public_key_hex"]);
        // The signature of the custody client under the key that payments are verified with.
        let text = |name: &str| forged["result"][name].as_str().unwrap();
        let claimed = key["payments_public_key_hex"].as_str().unwrap();
        let digest = text("signed_digest").parse().unwrap();
        let verified = signature::verify(profile, claimed, digest, text("signature_hex"));
        assert!(matches!(verified, Err(SignatureError::Wrong(_))), "{verified:?}");
    }
}

#[tokio::test]
async fn one_key_signs_payments_and_digests_for_both_profiles() {
    let world = World::start().await;
    for profile in SIGNATURE_PROFILES {
        let name = format!("key-of-{profile}");
        execute(&world, KEYS, &with(key(&name), "/signature_profile", json!(profile))).await;
        let created = view(&world, &name).await;
        let paid = samples::publish(&world, &payment_on(&name, "one")).await;
        verify::signature(&paid);
        verify::signature(&custody::publish(&world, &key_path(&name, "/sign"), &sign("two")).await);
        execute(&world, &key_path(&name, "/refresh"), &refresh("2")).await;
        let again = samples::publish(&world, &payment_on(&name, "three")).await;
        assert_eq!(again["result"]["public_key_hex"], paid["result"]["public_key_hex"]);
        assert_eq!(again["result"]["public_key_hex"], created["payments_public_key_hex"]);
        execute(&world, &key_path(&name, "/rotate"), &rotate(&format!("{name}-2"))).await;
        let successor = view(&world, &format!("{name}-2")).await;
        assert_ne!(successor["payments_public_key_hex"], created["payments_public_key_hex"]);
    }
}

#[tokio::test]
async fn child_keys_of_payments_are_not_those_of_the_key() {
    let world = World::start().await;
    execute(&world, KEYS, &with(key("btc"), "/signature_profile", json!(SIGNATURE_PROFILES[1]))).await;
    let child = world.get(&key_path("btc", "/derive?path=0/7")).await.ok();
    let paid = samples::publish(&world, &child_payment_on("btc", "p")).await;
    verify::signature(&paid);
    let key = view(&world, "btc").await;
    for other in [&child["public_key_hex"], &key["public_key_hex"], &key["payments_public_key_hex"]] {
        assert_ne!(paid["result"]["public_key_hex"], *other);
    }
    let signed = with(sign("s"), "/bip32", json!({ "network": "bitcoin", "path": "0/7" }));
    let signed = custody::publish(&world, &key_path("btc", "/sign"), &signed).await;
    assert_eq!(signed["result"]["public_key_hex"], child["public_key_hex"]);
}

#[tokio::test]
async fn key_for_payments_is_shown_by_views_lists_and_evidence_once_the_key_is_generated() {
    let world = World::start().await;
    custody::submit(&world, KEYS, &key("pending")).await;
    assert_eq!(view(&world, "pending").await["payments_public_key_hex"], "");
    create_key(&world, "vault").await;
    let shown = view(&world, "vault").await;
    let id: KeyId = serde_json::from_value(shown["key_id"].clone()).unwrap();
    let expected = payments_public_key(id, shown["public_key_artifact_ref"].as_str().unwrap());
    assert_eq!(shown["payments_public_key_hex"].as_str(), expected.as_deref());
    let listed = world.get(KEYS).await.ok();
    let listed = listed["keys"].as_array().unwrap().iter().find(|key| key["key_ref"] == "vault").unwrap();
    assert_eq!(listed["payments_public_key_hex"], shown["payments_public_key_hex"]);
    let paid = samples::publish(&world, &payment_on("vault", "p")).await;
    let evidence = world.get(&samples::path(&paid, "/evidence")).await.ok();
    assert_eq!(evidence["key"]["payments_public_key_hex"], shown["payments_public_key_hex"]);
}

#[tokio::test]
async fn two_equal_payments_are_signed_over_different_digests() {
    let world = World::start().await;
    let (one, two) =
        (samples::publish(&world, &payment("one")).await, samples::publish(&world, &payment("two")).await);
    let elsewhere = samples::publish(&world, &payment_on("other", "three")).await;
    let digests: std::collections::BTreeSet<_> = [&one, &two, &elsewhere]
        .map(|view| view["result"]["signed_digest"].as_str().unwrap().to_owned())
        .into();
    assert_eq!(digests.len(), 3);
}
