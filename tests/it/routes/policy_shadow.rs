//! What a candidate decides otherwise.

use crate::harness::bundles::{Site, key, release};
use crate::harness::modes::{Deployment, Mode, TestCaller};
use crate::harness::process::SIGN;
use crate::harness::samples::{payment, with};
use crate::harness::world::World;
use gateway_policy::BundleFiles;
use gateway_policy::testing::signed;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

const SHADOW: &str = "/v1/policy/shadow";

fn caller(tenant: &'static str) -> TestCaller<'static> {
    let (roles, scopes) = ("operator", "operations.* audit.read");
    TestCaller { client: "desk", subject: "carol", roles, scopes, tenant: Some(tenant) }
}

async fn shadow(deployment: &Deployment, tenant: &'static str) -> Value {
    deployment.call_as(caller(tenant), "GET", SHADOW, &Value::Null).await.ok()
}

#[tokio::test]
async fn without_a_candidate_there_are_no_differences() {
    let shown = World::start().await.get(SHADOW).await.ok();
    assert_eq!(shown, json!({ "candidate": null, "since_ms": null, "differences": [] }));
}

/// The candidate permits few recipients; the active bundle permits all.
#[tokio::test(flavor = "multi_thread")]
async fn decisions_that_a_candidate_makes_otherwise_are_listed_for_their_tenant() {
    let site = Site::new();
    site.offer(&release(1, &key(1)));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bundles/payment-guard-strict");
    let candidate = signed(&BundleFiles::read(&folder).unwrap(), &[&key(2)], |_| ());
    site.offer_candidate(&candidate);
    let [bundle, trust, offered] = ["bundle", "trust.json", "candidate"].map(|name| site.path(name));
    let paths = [("policy_bundle", &bundle), ("policy_trust_roots", &trust), ("policy_candidate", &offered)];
    let paths = paths.map(|(name, path)| (name, path.to_str().unwrap()));
    let deployment = Deployment::with(Mode::TrustedHeaders, &paths).await;

    let client =
        json!({ "client_id": "desk", "subject_id": "carol", "roles": [], "scopes": [], "tenant": "acme" });
    let body = with(with(payment("other"), "/payment/to_account", json!("acct-else")), "/client", client);
    let submitted = deployment.call_as(caller("acme"), "POST", SIGN, &body).await.ok();
    let id = &submitted["operation"]["operation_id"];
    let listed = loop {
        let shown = shadow(&deployment, "acme").await;
        assert_eq!(shown["candidate"], candidate.bundle_hash().unwrap().to_string());
        let mut differences = shown["differences"].as_array().unwrap().iter();
        if let Some(one) = differences.find(|one| one["operation_id"] == *id) {
            break one.clone();
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    assert_eq!(
        json!([
            listed["result"],
            listed["moment"],
            listed["tenant"],
            listed["client_id"],
            listed["subject_id"]
        ]),
        json!(["allow_to_deny", "submit", "acme", "desk", "carol"])
    );
    let paid = &body["payment"];
    assert_eq!(
        listed["payment"],
        json!({ "amount_minor": paid["amount_minor"], "currency": paid["currency"], "recipient": "…else" })
    );
    let reason = |of: &str, code: &str| {
        let reasons = listed[of]["reasons"].as_array().unwrap();
        reasons.iter().find(|reason| reason["code"] == code).cloned().unwrap()
    };
    assert_eq!(reason("before", "recipient_permitted")["code"], "recipient_permitted");
    let denied = reason("after", "recipient_not_permitted");
    assert!(!denied["operands"].as_array().unwrap().is_empty(), "{denied}");
    assert!(
        denied["remedy"].as_str().unwrap().contains("pay a permitted one"),
        "of the candidate's manifest: {denied}"
    );
    assert_eq!(
        (&listed["before"]["decision"], &listed["after"]["decision"]),
        (&json!("ALLOW"), &json!("DENY"))
    );
    assert_eq!(shadow(&deployment, "other").await["differences"], json!([]));
}
