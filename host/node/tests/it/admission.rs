//! The admissions that a node accepts, and one changed value at a time that makes it refuse.

use crate::support::{Group, KEY, code, other_root};
use gateway_domain::admission::{AdmissionDecision, Authorities, Derivation, Target};
use gateway_domain::ids::{EpochName, KeyId, OperationId};
use gateway_domain::intent::{Bip32, Intent, OperationType, SigningTerms, Taproot};
use gateway_domain::key::payments_public_key;
use gateway_domain::operation::EffectStep;
use gateway_domain::roster::{ParticipantIndex, Threshold};
use gateway_domain::time::EpochMs;
use gateway_node::testing::{
    Case, NOT_AFTER, SUITES, asset_action, authority, bundle, derived_key, hex32, offer, payment, recover,
    refresh, reshare, roster, rotate,
};
use gateway_node::{AdmitRequest, Code, Node, NodeError};
use gateway_threshold::derive::derive;

async fn group() -> Group {
    Group::with_key(3, 2, SUITES[1]).await
}

/// The code with which node 0 refuses a valid operation after one change to it.
async fn refusal(group: &Group, change: impl FnOnce(&mut Case)) -> Code {
    let mut case = group.case(1, asset_action(&[0, 1, 2], 7));
    change(&mut case);
    code(group.nodes[0].admit(&case.request()).await)
}

/// The code with which node 0 refuses a valid request after one change to it.
async fn request_refusal(group: &Group, change: impl FnOnce(&mut AdmitRequest)) -> Code {
    let mut request = group.case(1, asset_action(&[0, 1, 2], 7)).request();
    change(&mut request);
    code(group.nodes[0].admit(&request).await)
}

#[tokio::test]
async fn repeated_admission_returns_the_same_receipt() {
    let mut group = group().await;
    let case = group.case(1, asset_action(&[0, 1, 2], 7));
    let receipt = group.nodes[0].admit(&case.request()).await.unwrap();
    assert_eq!(receipt.participant, ParticipantIndex(0));
    assert_eq!(receipt.transition_hash, case.chain(0).after_admission().unwrap());
    assert_eq!(group.nodes[0].admit(&case.request()).await.unwrap(), receipt);
    group.restart(0).await;
    group.set_time(NOT_AFTER.0);
    assert_eq!(
        group.nodes[0].admit(&case.request()).await.unwrap(),
        receipt,
        "a repeated admission is answered after the decision expired"
    );
}

#[tokio::test]
async fn decision_for_another_intent_or_operation_is_refused() {
    let group = group().await;
    let other = asset_action(&[0, 1, 2], 8);
    assert_eq!(request_refusal(&group, |request| request.intent = other).await, Code::AdmissionRefused);
    let raised = |request: &mut AdmitRequest| {
        if let Intent::AssetAction(action) = &mut request.intent {
            action.asset_id = "eth".into();
        }
    };
    assert_eq!(request_refusal(&group, raised).await, Code::AdmissionRefused);
    let digest = |case: &mut Case| case.decision.request_digest = hex32(9);
    assert_eq!(refusal(&group, digest).await, Code::AdmissionRefused);
    let kind = |case: &mut Case| case.decision.operation_type = OperationType::KeyCreate;
    assert_eq!(refusal(&group, kind).await, Code::AdmissionRefused);
    let renamed = |request: &mut AdmitRequest| request.effect.operation.0 = hex32(2);
    assert_eq!(request_refusal(&group, renamed).await, Code::AdmissionRefused);
    let step = |request: &mut AdmitRequest| request.effect.step = EffectStep::Execute;
    assert_eq!(request_refusal(&group, step).await, Code::AdmissionRefused);
    let retyped = |request: &mut AdmitRequest| request.envelope.payload_type.push('x');
    assert_eq!(request_refusal(&group, retyped).await, Code::AdmissionRefused);
}

/// What approvers signed names the public key, so that gateway and authority together cannot exchange the key.
#[tokio::test]
async fn holder_admits_an_operation_only_on_the_key_that_its_intent_names() {
    for suite in SUITES {
        let group = Group::with_key(3, 2, suite).await;
        let public_key = hex::encode(group.keys().public_key());
        let other_suite = SUITES.into_iter().find(|other| *other != suite).unwrap();
        let named = [
            (format!("{suite}:{public_key}"), true),
            (format!("{suite}:{}", "11".repeat(32)), false),
            (format!("{other_suite}:{public_key}"), false),
            (public_key.clone(), false),
            (String::new(), false),
        ];
        for (nth, (named, is_admitted)) in (0..).zip(named) {
            let name = |intent: Intent| intent.naming(Some(named.clone()));
            let changed = |intent: Intent, id| {
                let case = group.key_change(name(intent), "2", &[0, 1, 2], 2);
                case.of(OperationId(hex32(id)))
            };
            for case in [
                group.case(4 * nth + 1, name(asset_action(&[0, 1, 2], 7))),
                group.case(4 * nth + 2, name(payment(&[0, 1, 2], None))),
                changed(refresh("2"), 4 * nth + 3),
                changed(recover("2", 2, &[0, 1]), 4 * nth + 4),
            ] {
                let answer = group.nodes[0].admit(&case.request()).await;
                if is_admitted {
                    answer.unwrap();
                } else {
                    assert_eq!(code(answer), Code::AdmissionRefused, "{named}");
                }
            }
        }
    }
}

/// Otherwise a custody signature over the digest of a payment that the policy denies would be the signature of that payment.
#[tokio::test]
async fn payment_is_signed_with_the_key_for_payments_and_nothing_else_is() {
    for suite in SUITES {
        let group = Group::with_key(3, 2, suite).await;
        let paying = group.case(1, payment(&[0, 1, 2], None));
        let signing = group.case(2, asset_action(&[0, 1, 2], 7));
        let paid = paying.decision.derivation.clone().unwrap();
        assert_eq!(signing.decision.derivation, None);
        let payments =
            payments_public_key(KEY, &format!("{suite}:{}", hex::encode(group.keys().public_key())));
        assert_eq!(Some(&paid.public_key_hex), payments.as_ref());
        let of_another_key = paying.clone().on_key("vault").derived_from(group.keys());
        let mut with_the_key_itself = paying.clone();
        with_the_key_itself.decision.derivation = None;
        for (what, case) in [
            ("the key itself for a payment", with_the_key_itself),
            ("the key for payments for a custody signature", signing.clone().derived(paid.clone())),
            (
                "a claim to be none for payments",
                paying.clone().derived(Derivation { payments: false, ..paid.clone() }),
            ),
            (
                "the key for payments of another key",
                paying.clone().derived(of_another_key.decision.derivation.unwrap()),
            ),
            ("another tweak", paying.clone().derived(Derivation { tweak: hex32(3), ..paid })),
        ] {
            assert_eq!(
                code(group.nodes[0].admit(&case.request()).await),
                Code::AdmissionRefused,
                "{suite}: {what}"
            );
        }
        for case in [&paying, &signing] {
            group.admit(case).await;
        }
        let (payment, signature) = (group.sign(&paying, 1).await, group.sign(&signing, 1).await);
        assert_ne!(payment.public_key_hex, signature.public_key_hex);
        let profile = group.keys().profile();
        for result in [payment, signature] {
            let (key, bytes) = (result.public_key_hex, result.signature_hex);
            let (key, bytes) = (hex::decode(key).unwrap(), hex::decode(bytes).unwrap());
            gateway_threshold::sign::verify(profile, &key, result.signed_digest.as_bytes(), &bytes).unwrap();
        }
    }
}

#[tokio::test]
async fn signature_with_another_epoch_than_the_active_one_is_refused() {
    let group = group().await;
    assert_eq!(
        refusal(&group, |case| case.decision.epoch = EpochName("2".into())).await,
        Code::EpochConflict
    );
    assert_eq!(refusal(&group, |case| case.decision.epoch_root = other_root()).await, Code::EpochConflict);
    let mut unknown = group.case(1, asset_action(&[0, 1, 2], 7));
    unknown = unknown.on_key("vault");
    let answer = group.nodes[0].admit(&unknown.request()).await;
    assert!(
        matches!(answer, Err(NodeError::Unavailable { .. })),
        "a missing share is not a refusal: {answer:?}"
    );
}

#[tokio::test]
async fn signature_with_a_target_or_holders_is_refused() {
    let group = group().await;
    let target = Case::key_create(1, KEY, 3, 2, SUITES[0]).decision.target;
    let makes_one = |case: &mut Case| case.decision.target = target.clone();
    assert_eq!(refusal(&group, makes_one).await, Code::AdmissionRefused);
    let names_holders = |case: &mut Case| case.decision.holders = Some(roster(&[0, 1, 2]));
    assert_eq!(refusal(&group, names_holders).await, Code::AdmissionRefused);
}

#[tokio::test]
async fn child_key_must_be_the_one_the_node_derives() {
    let group = group().await;
    let valid = group.case(1, payment(&[0, 1, 2], Some("0/17")));
    let right = valid.decision.derivation.clone().unwrap();
    let other = group.case(1, payment(&[0, 1, 2], Some("0/18"))).decision.derivation.unwrap();
    let plain = group.case(2, payment(&[0, 1, 2], None));
    let Intent::AssetAction(mut action) = asset_action(&[0, 1, 2], 7) else { panic!() };
    action.terms.bip32 = Some(Bip32 { network: "bitcoin".into(), path: "0/17".into() });
    let own_child = group.case(3, Intent::AssetAction(action));
    for (what, case) in [
        (
            "the child of another path",
            valid.clone().derived(Derivation { path: right.path.clone(), ..other }),
        ),
        ("an unasked child", plain.clone().derived(right.clone())),
        (
            "the key for payments in place of its child",
            valid.clone().derived(plain.decision.derivation.unwrap()),
        ),
        (
            "the key's own child for a payment",
            valid.clone().derived(own_child.decision.derivation.clone().unwrap()),
        ),
        ("the child of payments for a custody signature", own_child.clone().derived(right)),
    ] {
        assert_eq!(code(group.nodes[0].admit(&case.request()).await), Code::AdmissionRefused, "{what}");
    }
    group.nodes[0].admit(&own_child.request()).await.unwrap();
    group.nodes[0].admit(&valid.request()).await.unwrap();
}

#[tokio::test]
async fn output_key_must_be_the_one_the_node_derives() {
    let group = group().await;
    let asked = |taproot, path: Option<&str>| {
        let Intent::AssetAction(mut action) = asset_action(&[0, 1, 2], 7) else { panic!() };
        let bip32 = path.map(|path| Bip32 { network: "bitcoin".into(), path: path.into() });
        action.terms = SigningTerms { bip32, taproot, ..action.terms };
        group.case(1, Intent::AssetAction(action))
    };
    let scripts = |byte| Some(Taproot { merkle_root: Some(hex32(byte)) });
    let key_only = Some(Taproot { merkle_root: None });
    let valid = asked(scripts(1), Some("0/17"));
    let of = |taproot, path| derived_key(&asked(taproot, path).intent, KEY, group.keys()).unwrap();
    let others = [
        None,
        of(None, Some("0/17")),
        of(key_only, Some("0/17")),
        of(scripts(2), Some("0/17")),
        of(scripts(1), None),
        of(scripts(1), Some("0/17")).map(|right| Derivation { taproot: key_only, ..right }),
        of(scripts(1), Some("0/17")).map(|right| Derivation { tweak: hex32(3), ..right }),
    ];
    for other in others {
        let mut case = valid.clone();
        case.decision.derivation = other.clone();
        assert_eq!(code(group.nodes[0].admit(&case.request()).await), Code::AdmissionRefused, "{other:?}");
    }
    let unasked = asked(None, None).derived(of(key_only, None).unwrap());
    assert_eq!(code(group.nodes[0].admit(&unasked.request()).await), Code::AdmissionRefused);
    let right = of(scripts(1), Some("0/17")).unwrap();
    let internal = derive(group.keys(), &[0, 17]).unwrap();
    assert_eq!(right.public_key_hex, hex::encode(internal.taproot(Some(&[1; 32])).unwrap().public_key));
    group.nodes[0].admit(&valid.derived(right).request()).await.unwrap();
}

#[tokio::test]
async fn second_decision_for_an_operation_is_a_conflict() {
    let group = group().await;
    let case = group.case(1, asset_action(&[0, 1, 2], 7));
    group.nodes[0].admit(&case.request()).await.unwrap();
    let mut longer = case.clone();
    longer.decision.not_after_ms = EpochMs(NOT_AFTER.0 + 1);
    assert_eq!(code(group.nodes[0].admit(&longer.request()).await), Code::AdmissionConflict);
    // A forged decision for the same operation is refused as forged, and changes nothing.
    longer.authority = authority(2);
    assert_eq!(code(group.nodes[0].admit(&longer.request()).await), Code::AdmissionRefused);
    group.nodes[0].admit(&case.request()).await.unwrap();
}

#[tokio::test]
async fn key_creation_that_differs_from_its_intent_is_refused() {
    let group = group().await;
    let again = Case::key_create(2, KEY, 3, 2, SUITES[1]);
    assert_eq!(code(group.nodes[0].admit(&again.request()).await), Code::EpochConflict);
    let fresh = || Case::key_create(2, KEY, 3, 2, SUITES[1]).on_key("vault");
    let mut cases = [(); 11].map(|()| fresh());
    cases[0].decision.threshold = Threshold(3);
    cases[1].decision.epoch = EpochName("2".into());
    cases[2].decision.epoch_root = hex32(1);
    cases[3].decision.participants = roster(&[0, 1]);
    cases[4] = Case::key_create(2, KEY, 3, 2, "rsa").on_key("vault");
    cases[5].decision.target = None;
    cases[6].decision.holders = Some(roster(&[0, 1, 2]));
    let [.., key_id, epoch, participants, threshold] = &mut cases;
    let target = |case: &mut Case, change: fn(&mut Target)| change(case.decision.target.as_mut().unwrap());
    target(key_id, |target| target.key_id = KeyId(hex32(44)));
    target(epoch, |target| target.epoch = EpochName("2".into()));
    target(participants, |target| target.participants = roster(&[0, 1]));
    target(threshold, |target| target.threshold = Threshold(3));
    for case in cases {
        assert_eq!(code(group.nodes[0].admit(&case.request()).await), Code::AdmissionRefused);
    }
    group.nodes[0].admit(&fresh().request()).await.unwrap();
}

#[tokio::test]
async fn key_without_approvals_is_admitted_only_in_development() {
    let group = Group::open(1).await;
    let case = unapproved(Case::key_create(2, KEY, 3, 2, SUITES[0]).approved_by(&[]));
    assert_eq!(code(group.nodes[0].admit(&case.request()).await), Code::AdmissionRefused);
    let mut config = group.config(5);
    config.settings.keys_without_approvals = true;
    config.participant = ParticipantIndex(0);
    let lenient = Node::open(config).await.unwrap();
    lenient.offer_bundle(offer(bundle())).await.unwrap();
    lenient.admit(&case.request()).await.unwrap();
    let signature = Case::new(3, KEY, case_epoch(), 2, asset_action(&[0, 1], 7)).approved_by(&[]);
    assert_eq!(code(lenient.admit(&signature.request()).await), Code::AdmissionRefused);
}

/// The case, evaluated by a gateway that requires no approvals for it.
fn unapproved(mut case: Case) -> Case {
    case.facts.insert("deployment.required_approvals".into(), "0".into());
    case.required_approvals = 0;
    case
}

fn case_epoch() -> gateway_domain::key::Epoch {
    gateway_domain::key::Epoch { name: EpochName("1".into()), root: hex32(1) }
}

#[tokio::test]
async fn key_change_that_differs_from_its_intent_is_refused() {
    let group = group().await;
    let valid = [
        group.key_change(refresh("2"), "2", &[0, 1, 2], 2),
        group.key_change(reshare("2", &[0, 3], 2), "2", &[0, 3], 2),
        group.key_change(rotate("2", &[0, 3], 2), "2", &[0, 3], 2),
        group.key_change(recover("2", 2, &[0, 1]), "2", &[0, 1, 2], 2),
    ];
    let wrong: [fn(&mut AdmissionDecision); 8] = [
        |decision| decision.target = None,
        |decision| decision.holders = None,
        |decision| decision.participants = roster(&[0, 1, 2, 9]),
        |decision| decision.target.as_mut().unwrap().epoch = EpochName("3".into()),
        |decision| decision.target.as_mut().unwrap().threshold = Threshold(3),
        |decision| decision.target.as_mut().unwrap().participants = roster(&[0, 1]),
        |decision| decision.target.as_mut().unwrap().key_id = KeyId(hex32(44)),
        |decision| decision.operation_type = OperationType::KeyCreate,
    ];
    for (number, case) in (2..).zip(valid) {
        for wrong in wrong {
            let mut other = case.clone();
            wrong(&mut other.decision);
            assert_eq!(
                code(group.nodes[0].admit(&other.request()).await),
                Code::AdmissionRefused,
                "{other:?}"
            );
        }
        let valid = case.of(OperationId(hex32(number)));
        group.nodes[0].admit(&valid.request()).await.unwrap();
    }
}

#[tokio::test]
async fn recovery_needs_enough_other_holders_as_helpers() {
    let group = group().await;
    for intent in [recover("2", 2, &[0, 2]), recover("2", 2, &[0, 3]), recover("2", 3, &[0, 1])] {
        let case = group.key_change(intent, "2", &[0, 1, 2], 2);
        assert_eq!(code(group.nodes[0].admit(&case.request()).await), Code::AdmissionRefused);
    }
}

/// A program that can write the node's database must not change what an admitted operation signs.
#[tokio::test]
async fn statement_altered_in_the_database_is_not_executed() {
    let (digest, other) = ("07".repeat(32), "09".repeat(32));
    let alterations = [
        // The decision alone, with its digest; the decision and the intent; the approvals.
        format!(
            "body = replace(body, '\"request_digest\":\"{digest}\",\"key_id\"', '\"request_digest\":\"{other}\",\"key_id\"')"
        ),
        format!("body = replace(body, '{digest}', '{other}')"),
        "body = replace(body, '\"alice\"', '\"mallory\"')".to_owned(),
    ];
    for alteration in alterations {
        let mut group = group().await;
        let case = group.case(1, asset_action(&[0, 1, 2], 7));
        group.admit(&case).await;
        group.nodes[0].close().await;
        let sql = format!("UPDATE statement SET {alteration}, row_hash = NULL WHERE body LIKE '%{digest}%'");
        assert_eq!(group.execute_sql(0, &sql).await, 1, "{sql}");
        group.restart(0).await;
        let mut call = case.call(0, EffectStep::Execute, 1, 1);
        if alteration.contains(&other) {
            let honest = group.nodes[0].signing_commit(&call, &[]).await;
            assert_eq!(code(honest), Code::AdmissionConflict, "{alteration}");
            call.subject.request_digest = hex32(9);
        }
        let answer = group.nodes[0].signing_commit(&call, &[]).await;
        assert_eq!(code(answer), Code::AdmissionRefused, "{alteration}");
        group.round_one(&case, 1, 1).await.unwrap();
    }
}

#[tokio::test]
async fn decision_needs_as_many_authorities_as_the_node_requires() {
    let mut group = group().await;
    let keys = [1, 2, 3].map(|byte| authority(byte).verifying_key().to_bytes());
    group.authorities = Authorities::new(keys, 2).unwrap();
    group.restart_all().await;
    let case = group.case(1, asset_action(&[0, 1, 2], 7));
    let by = |byte| Case { authority: authority(byte), ..case.clone() }.request();
    let signed_by = |bytes: &[u8]| {
        let mut request = by(bytes[0]);
        request.envelope.signatures = bytes.iter().flat_map(|byte| by(*byte).envelope.signatures).collect();
        request
    };
    for too_few in [&[1][..], &[2], &[1, 1], &[1, 9], &[1, 2, 3, 9]] {
        let refused = code(group.nodes[0].admit(&signed_by(too_few)).await);
        assert_eq!(refused, Code::AdmissionRefused, "{too_few:?}");
    }
    let one = by(1);
    let mut renamed = one.clone();
    let mut second = one.envelope.signatures[0].clone();
    second.keyid = by(2).envelope.signatures[0].keyid.clone();
    renamed.envelope.signatures.push(second);
    assert_eq!(code(group.nodes[0].admit(&renamed).await), Code::AdmissionRefused);
    group.nodes[0].admit(&signed_by(&[1, 3])).await.unwrap();
}
