//! The request that a policy gets, for each kind of intent and each moment.

use crate::bindings::svc::policy::types as wit;
use crate::convert::Owned;
use crate::testing::{NOW, payment};
use gateway_domain::intent::Intent;
use gateway_domain::policy::{Moment, Request};

/// For each kind: the intent as JSON, and what the policy must get: the intent's record, the participants, the threshold.
const KINDS: [(&str, &str, &[u16], Option<u16>); 7] = [
    (
        r#"{"kind":"payment","from_account":"acct-1","to_account":"acct-2","amount_minor":-5,"currency":"EUR",
            "reference":"invoice","bip32":{"path":"1/2","network":"main"},"requested_participants":[0,2],"threshold":2,
            "publication_mode":"manual"}"#,
        r#"Payment(Payment { from-account: "acct-1", to-account: "acct-2", amount-minor: -5, currency: "EUR", reference: Some("invoice") })"#,
        &[0, 2],
        Some(2),
    ),
    (
        r#"{"kind":"asset_action","asset_id":"asset-1","action":"transfer","chain_id":"eip155:1",
            "request_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "typed_data_root":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
            "public_fields":{"b":"2","a":"1"},"requested_participants":[1],"publication_mode":"manual"}"#,
        r#"AssetAction(AssetAction { asset-id: "asset-1", action: "transfer", chain-id: "eip155:1", request-digest: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", typed-data-root: "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", public-fields: [("a", "1"), ("b", "2")], transaction: None })"#,
        &[1],
        None,
    ),
    (
        r#"{"kind":"key_create","asset_id":"asset-1","purpose":"treasury","participants":[0,1,2],"threshold":2,
            "signature_profile":"frost-ed25519-sha512","chains":["eip155:1"]}"#,
        r#"KeyChange(KeyChange { operation: "key_create", reason: "", purpose: "treasury", chains: ["eip155:1"], target-epoch: None, new-key-ref: None, signature-profile: Some("frost-ed25519-sha512"), asset-id: Some("asset-1"), recovering-participant: None })"#,
        &[0, 1, 2],
        Some(2),
    ),
    (
        r#"{"kind":"refresh","target_epoch":"2","reason":"why","publication_mode":"automatic"}"#,
        r#"KeyChange(KeyChange { operation: "refresh", reason: "why", purpose: "", chains: [], target-epoch: Some("2"), new-key-ref: None, signature-profile: None, asset-id: None, recovering-participant: None })"#,
        &[],
        None,
    ),
    (
        r#"{"kind":"reshare","new_participants":[0,1,2,3],"threshold":3,"target_epoch":"2","reason":"why",
            "publication_mode":"automatic"}"#,
        r#"KeyChange(KeyChange { operation: "reshare", reason: "why", purpose: "", chains: [], target-epoch: Some("2"), new-key-ref: None, signature-profile: None, asset-id: None, recovering-participant: None })"#,
        &[0, 1, 2, 3],
        Some(3),
    ),
    (
        r#"{"kind":"rotate","new_key_ref":"treasury-2","participants":[0,1,2],"threshold":2,"target_epoch":"2",
            "reason":"why","publication_mode":"automatic"}"#,
        r#"KeyChange(KeyChange { operation: "rotate", reason: "why", purpose: "", chains: [], target-epoch: Some("2"), new-key-ref: Some("treasury-2"), signature-profile: None, asset-id: None, recovering-participant: None })"#,
        &[0, 1, 2],
        Some(2),
    ),
    (
        r#"{"kind":"recover","recovery_case_ref":"case-1","recovering_participant":2,"helper_participants":[0,1],
            "helper_share_cids":[],"target_epoch":"2","reason":"why","publication_mode":"automatic"}"#,
        r#"KeyChange(KeyChange { operation: "recover", reason: "why", purpose: "", chains: [], target-epoch: Some("2"), new-key-ref: None, signature-profile: None, asset-id: None, recovering-participant: Some(2) })"#,
        &[0, 1],
        None,
    ),
];

#[test]
fn every_intent_kind_reaches_the_policy_complete_at_every_moment() {
    let sample = payment("acct-2", &["bob", "carol"]);
    for (json, record, participants, threshold) in KINDS {
        let intent: Intent = serde_json::from_str(json).unwrap();
        for (moment, name) in [
            (Moment::Submit, "submit"),
            (Moment::Approval, "approval"),
            (Moment::Admission, "admission"),
            (Moment::Preview, "preview"),
        ] {
            let hash = intent.hash().unwrap();
            let request = Request { intent: &intent, intent_hash: hash, ..sample.request(moment) };
            let owned = Owned::of(&request);
            let approvals = owned.approvals(request.approvals);
            let seen = owned.request(&request, &approvals);
            assert_eq!(format!("{:?}", seen.moment).to_lowercase(), format!("moment::{name}"));
            assert_eq!(format!("{:?}", seen.intent), format!("Intent::{record}"));
            assert_eq!((seen.participants, seen.threshold), (participants, threshold), "{json}");
            assert_eq!(seen.intent_hash, hash.to_string());
            assert_eq!(seen.bip32_path, json.contains("bip32").then_some("1/2"));
            assert_common_members(&seen);
        }
    }
}

/// Checks the members that do not depend on the kind.
fn assert_common_members(seen: &wit::Request<'_>) {
    assert_eq!((seen.tenant, seen.key_ref), ("default", "treasury"));
    assert_eq!((seen.client_id, seen.submitter.subject_id), ("client-1", "alice"));
    assert_eq!(seen.submitter.roles, ["submitter"]);
    let approvals: Vec<_> =
        seen.approvals.iter().map(|it| (it.by.subject_id, it.by.roles.to_vec(), it.at_ms)).collect();
    assert_eq!(approvals, [("bob", vec!["approver"], NOW.0), ("carol", vec!["approver"], NOW.0)]);
}
