//! The bundles that a node accepts: by its own trust roots, pins and high-water mark, not the caller's.

use crate::policy::{counting_bundle, offer_to_all, with_bundle};
use crate::support::{Group, NOW, code};
use gateway_domain::operation::EffectStep;
use gateway_domain::time::EpochMs;
use gateway_node::limits::SUPERSEDED_BUNDLE_MS;
use gateway_node::testing::{
    Case, SUITES, asset_action, authority, bundle, bundle_key, hex32, offer, refresh, signed_bundle,
    trust_roots,
};
use gateway_node::{BundleOffer, CeremonyStart, Code, NodeError};
use gateway_policy::bundle::ActivationRecord;
use gateway_policy::{BundleError, BundleFiles, Pins, Trust};

fn version(sequence: u64) -> BundleFiles {
    signed_bundle(&bundle(), &bundle_key(), |manifest| manifest.sequence = sequence)
}

fn case(group: &Group, id: u8, files: &BundleFiles) -> Case {
    with_bundle(group.case(id, asset_action(&[0, 1, 2], 7)), files)
}

fn refusal(answer: Result<(), NodeError>) -> String {
    match answer {
        Err(NodeError::Rejected(rejection)) => {
            assert_eq!(rejection.code, Code::PolicyRefused, "{rejection}");
            rejection.detail
        }
        other => panic!("{other:?}"),
    }
}

async fn group() -> Group {
    Group::with_key(3, 2, SUITES[0]).await
}

#[tokio::test]
async fn unknown_bundle_is_asked_for_and_kept_over_a_restart() {
    let mut group = group().await;
    let newer = version(9);
    let case = case(&group, 1, &newer);
    let hash = newer.bundle_hash().unwrap();
    let unknown = group.nodes[0].admit(&case.request()).await;
    assert!(
        matches!(unknown, Err(NodeError::BundleUnknown { bundle_hash }) if bundle_hash == hash),
        "{unknown:?}"
    );
    group.nodes[0].offer_bundle(offer(newer.clone())).await.unwrap();
    group.set_time(NOW + 1);
    group.nodes[0].offer_bundle(offer(newer)).await.unwrap();
    let written_again = format!("UPDATE bundle SET sequence = sequence WHERE offered_at_ms = {}", NOW + 1);
    assert_eq!(group.execute_sql(0, &written_again).await, 0, "the same offer is not written again");
    group.restart(0).await;
    group.nodes[0].admit(&case.request()).await.unwrap();
    let call = case.call(0, EffectStep::PolicyReceipt, 1, 1);
    group.nodes[0].policy_receipt(&call).await.unwrap();
    group.restart(0).await;
    assert!(group.round_one(&case, 0, 1).await.is_ok(), "the bundle is in the database");
}

#[tokio::test]
async fn bundle_that_the_node_s_own_roots_do_not_trust_is_refused() {
    let group = group().await;
    let node = &group.nodes[0];
    let foreign = signed_bundle(&bundle(), &authority(9), |manifest| manifest.sequence = 9);
    assert!(refusal(node.offer_bundle(offer(foreign)).await).contains("signatures by trusted keys"));
    let altered = version(9).with([("data/custody.json".to_owned(), b"{}".to_vec())]).unwrap();
    assert!(refusal(node.offer_bundle(offer(altered)).await).contains("was changed"));
    let expired = signed_bundle(&bundle(), &bundle_key(), |manifest| manifest.not_after_ms = Some(NOW - 1));
    assert!(refusal(node.offer_bundle(offer(expired)).await).contains("expired"));
    let early = signed_bundle(&bundle(), &bundle_key(), |manifest| manifest.not_before_ms = Some(NOW + 1));
    assert!(refusal(node.offer_bundle(offer(early)).await).contains("not valid before"));
    let unproven = signed_bundle(&bundle().only(|name| !name.starts_with("tests/")), &bundle_key(), |_| ());
    assert!(refusal(node.offer_bundle(offer(unproven)).await).contains("no test vectors"));
    let pins = Pins::parse(&hex32(7).to_string()).unwrap();
    group.policy_trust.replace(Ok(&trust_roots()), pins).unwrap();
    assert!(refusal(node.offer_bundle(offer(version(9))).await).contains("not among the pinned ones"));
}

#[tokio::test]
async fn development_key_is_not_trusted_unless_it_is_permitted() {
    let mut group = group().await;
    group.policy_trust = Trust::new(false);
    assert!(group.policy_trust.replace(Ok(&trust_roots()), Pins::default()).is_err());
    group.restart_all().await;
    let refused = group.nodes[0].offer_bundle(offer(version(9))).await;
    assert!(matches!(refused, Err(NodeError::Unavailable { .. })), "{refused:?}");
    let refused = group.nodes[0].admit(&case(&group, 1, &bundle()).request()).await;
    assert!(matches!(refused, Err(NodeError::Unavailable { .. })), "{refused:?}");
}

/// A bundle that is revoked, unpinned or expired decides nothing any more, whatever was admitted under it.
#[tokio::test]
async fn bundle_revoked_since_the_admission_stops_the_execution() {
    let group = group().await;
    let expiring = signed_bundle(&bundle(), &bundle_key(), |manifest| {
        (manifest.sequence, manifest.not_after_ms) = (9, Some(NOW + 100));
    });
    offer_to_all(&group, &expiring).await;
    let signing = case(&group, 1, &expiring);
    let mut changing = with_bundle(group.key_change(refresh("2"), "2", &[0, 1, 2], 2), &expiring);
    changing = changing.of(gateway_domain::ids::OperationId(hex32(2)));
    group.admit(&signing).await;
    group.admit(&changing).await;
    let start =
        CeremonyStart { dealers: Default::default(), package: group.keys().to_bytes(), discarded: vec![] };
    let refused = async || {
        let call = changing.call(0, EffectStep::Execute, 1, 1);
        let started = code(group.nodes[0].ceremony_start(&call, &start).await);
        assert_eq!(started, code(group.round_one(&signing, 0, 1).await));
        let later = case(&group, 3, &expiring);
        assert_eq!(started, code(group.nodes[0].admit(&later.request()).await));
        started
    };
    let revoked = String::from_utf8(trust_roots()).unwrap();
    let public = gateway_domain::ids::Hex32::new(bundle_key().verifying_key().to_bytes());
    let mut roots: serde_json::Value = serde_json::from_str(&revoked).unwrap();
    roots["revoked"] = serde_json::json!([public]);
    group.policy_trust.replace(Ok(roots.to_string().as_bytes()), Pins::default()).unwrap();
    assert_eq!(refused().await, Code::PolicyRefused);
    let other = Pins::parse(&hex32(7).to_string()).unwrap();
    group.policy_trust.replace(Ok(&trust_roots()), other).unwrap();
    assert_eq!(refused().await, Code::PolicyRefused);
    group.policy_trust.replace(Ok(&trust_roots()), Pins::default()).unwrap();
    group.set_time(NOW + 101);
    assert_eq!(refused().await, Code::PolicyRefused);
    group.set_time(NOW);
    // Unreadable roots may hide a revocation, but the operation can wait for them.
    group.policy_trust.replace(Err(BundleError::NoTrustRoots), Pins::default()).unwrap_err();
    let waiting = group.round_one(&signing, 0, 1).await;
    assert!(matches!(waiting, Err(NodeError::Unavailable { .. })), "{waiting:?}");
    group.policy_trust.replace(Ok(&trust_roots()), Pins::default()).unwrap();
    assert!(group.round_one(&signing, 0, 1).await.is_ok());
}

#[tokio::test]
async fn older_bundle_admits_nothing_once_a_newer_one_did() {
    let mut group = group().await;
    let (old, new) = (version(8), version(9));
    for files in [&old, &new] {
        offer_to_all(&group, files).await;
    }
    let admit = async |group: &Group, id: u8, files: &BundleFiles| {
        group.nodes[0].admit(&case(group, id, files).request()).await.map(drop)
    };
    admit(&group, 1, &old).await.unwrap();
    admit(&group, 2, &new).await.unwrap();
    // Operations that were decided before the activation arrive after it.
    admit(&group, 3, &old).await.unwrap();
    group.set_time(NOW + SUPERSEDED_BUNDLE_MS);
    assert_eq!(code(admit(&group, 4, &old).await), Code::BundleSuperseded);
    group.restart(0).await;
    assert_eq!(code(admit(&group, 4, &old).await), Code::BundleSuperseded, "after a restart");
    let same = signed_bundle(&bundle(), &bundle_key(), |manifest| {
        (manifest.sequence, manifest.version) = (9, "other".into());
    });
    offer_to_all(&group, &same).await;
    assert_eq!(code(admit(&group, 4, &same).await), Code::BundleSuperseded, "the same sequence");
    admit(&group, 5, &new).await.unwrap();
    // The node's operator pins the older one.
    let pins = [&old, &new].map(|files| files.bundle_hash().unwrap().to_string()).join(",");
    group.policy_trust.replace(Ok(&trust_roots()), Pins::parse(&pins).unwrap()).unwrap();
    admit(&group, 6, &old).await.unwrap();
    admit(&group, 7, &new).await.unwrap();
}

#[tokio::test]
async fn signed_activation_record_brings_an_older_bundle_back() {
    let group = group().await;
    let (old, new) = (version(8), version(9));
    offer_to_all(&group, &new).await;
    let node = &group.nodes[0];
    node.admit(&case(&group, 1, &new).request()).await.unwrap();
    group.set_time(NOW + SUPERSEDED_BUNDLE_MS);
    let record = |sequence, not_after_ms| {
        let bundle_hash = old.bundle_hash().unwrap();
        ActivationRecord { sequence, bundle_hash, reason: "9 is wrong".into(), not_after_ms }
    };
    let offered = async |record: &ActivationRecord, key| {
        let activation = serde_json::to_vec(&record.sign(&[&key]).unwrap()).unwrap();
        node.offer_bundle(BundleOffer { files: old.clone(), activation: Some(activation) }).await
    };
    let back = case(&group, 2, &old);
    refusal(offered(&record(10, None), authority(9)).await);
    for invalid in [record(9, None), record(10, Some(EpochMs(NOW)))] {
        offered(&invalid, bundle_key()).await.unwrap();
        assert_eq!(code(node.admit(&back.request()).await), Code::BundleSuperseded, "{invalid:?}");
    }
    offered(&record(10, None), bundle_key()).await.unwrap();
    node.admit(&back.request()).await.unwrap();
    let now = NOW + SUPERSEDED_BUNDLE_MS * 2;
    group.set_time(now);
    let later = |id: u8, files: &BundleFiles| {
        let mut case = case(&group, id, files);
        case.decision.not_after_ms = EpochMs(now + 1_000);
        case.request()
    };
    assert_eq!(code(node.admit(&later(3, &new)).await), Code::BundleSuperseded);
    // Without the record, whose sequence the node has.
    node.offer_bundle(offer(old.clone())).await.unwrap();
    node.admit(&later(4, &old)).await.unwrap();
}

#[tokio::test]
async fn least_recently_offered_bundles_are_dropped_but_never_the_active_one() {
    let mut group = group().await;
    let n = u64::try_from(gateway_policy::limits::BUNDLES_TRUSTED_MAX).unwrap();
    for sequence in 10..10 + n + 2 {
        group.set_time(NOW + sequence);
        let files = counting_bundle_of(sequence);
        group.nodes[0].offer_bundle(offer(files)).await.unwrap();
    }
    group.restart(0).await;
    // `payment-guard` made the key, so it is the active one.
    group.nodes[0].admit(&case(&group, 1, &bundle()).request()).await.unwrap();
    let dropped = group.nodes[0].admit(&case(&group, 2, &counting_bundle_of(10)).request()).await;
    assert!(matches!(dropped, Err(NodeError::BundleUnknown { .. })), "{dropped:?}");
    group.nodes[0].admit(&case(&group, 3, &counting_bundle_of(10 + n + 1)).request()).await.unwrap();
}

fn counting_bundle_of(sequence: u64) -> BundleFiles {
    signed_bundle(&counting_bundle(&[]), &bundle_key(), |manifest| manifest.sequence = sequence)
}

#[tokio::test]
async fn nodes_of_a_process_compile_a_bundle_once() {
    let group = group().await;
    let compiled = gateway_node::testing::compiled_bundles();
    let files = version(9);
    offer_to_all(&group, &files).await;
    assert_eq!(compiled.n_compiled(), 2, "three nodes and the gateway have two bundles");
}
