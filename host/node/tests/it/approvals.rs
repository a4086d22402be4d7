//! A compromised gateway has the authority's key: nodes that verify approvers' signatures do not admit an operation that the
//! approvers did not sign.

use crate::support::{Group, KEY, NOW, code};
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::approval::{Approval, ApprovalSubject, Approvers, PinnedRegistry, SigningRule};
use gateway_domain::ids::{KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{Intent, key_id};
use gateway_domain::operation::EffectStep;
use gateway_domain::people::Registered;
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::testing::approvers::{Authenticator, approval, entry, key, key_entry, registry, signed};
use gateway_domain::time::EpochMs;
use gateway_node::testing::{Case, SUITES, asset_action, bundle, hex32, offer, refresh, roster, rotate};
use gateway_node::{AdmitRequest, CeremonyStart, Code, Node, NodeError, Owner};
use serde_json::{Value, json};
use std::sync::Arc;

const AGE_MAX_MS: u64 = 500;

/// Alice has a valid key, a revoked, an expired and a future one. Bob has a key and an authenticator. Carol is an approver of
/// another tenant.
fn approvers() -> Approvers {
    approvers_with(key_entry(&key(1)))
}

/// The approvers, with this entry for Alice's first key.
fn approvers_with(alice_key: Value) -> Approvers {
    let with = |key: Value, name: &str, at: u64| {
        let mut key = key;
        key[name] = json!(at);
        key
    };
    let alice = entry(
        "alice",
        &[
            alice_key,
            with(key_entry(&key(11)), "revoked_at_ms", NOW),
            with(key_entry(&key(12)), "not_after_ms", NOW),
            with(key_entry(&key(13)), "not_before_ms", NOW + 1),
        ],
    );
    let bob = entry("bob", &[key_entry(&key(2)), Authenticator::new(20).entry()]);
    let mut carol = entry("carol", &[key_entry(&key(3))]);
    carol["tenants"] = json!(["second"]);
    Approvers::parse(registry(&[alice, bob, carol]).as_bytes()).unwrap()
}

fn pinned() -> PinnedRegistry {
    PinnedRegistry::new(Arc::new(approvers()), AGE_MAX_MS)
}

fn owner(tenant: &str, key_ref: &str) -> Owner {
    Owner { tenant: Tenant(tenant.into()), key_ref: KeyRef(key_ref.into()) }
}

async fn group() -> Group {
    let mut group = Group::with_key(3, 2, SUITES[0]).await;
    group.set_signed_approvals(SigningRule::Required(pinned())).await;
    group
}

/// The subject of a case's approvals.
fn approval_subject<'a>(case: &'a Case, tenant: &'a Tenant) -> ApprovalSubject<'a> {
    let decision = &case.decision;
    let (operation_id, key_id, intent_hash) = (decision.operation_id, decision.key_id, decision.intent_hash);
    let submitter = &case.submitter.subject_id;
    ApprovalSubject { tenant, operation_id, key_id, intent_hash, submitter }
}

fn at(subject_id: &str) -> Approval {
    approval(subject_id, i64::try_from(NOW).unwrap())
}

/// The case approved by Alice with her key and Bob with his authenticator.
fn approve(case: Case) -> Case {
    let tenant = Tenant("default".into());
    let subject = approval_subject(&case, &tenant);
    let alice = signed(at("alice"), &subject, &key(1));
    let bob = Authenticator::new(20).signed(at("bob"), &subject);
    case.with_approvals(vec![alice, bob])
}

fn action(group: &Group) -> Case {
    group.case(1, asset_action(&[0, 1, 2], 7))
}

/// Checks that no node admits the case or makes a later step. Returns the refusal's code and detail.
async fn refusal(group: &Group, case: &Case) -> (Code, String) {
    let request: AdmitRequest = case.request();
    let mut refusal = None;
    for (node, participant) in group.nodes.iter().zip(0..) {
        let Err(NodeError::Rejected(rejection)) = node.admit(&request).await else {
            panic!("admitted: {request:?}")
        };
        let receipt = node.policy_receipt(&case.call(participant, EffectStep::PolicyReceipt, 1, 1)).await;
        assert_eq!(code(receipt), Code::StepOutOfOrder);
        let call = case.call(participant, EffectStep::Execute, 1, 1);
        let nonces = node.signing_commit(&call, &[]).await;
        assert_eq!(code(nonces), Code::StepOutOfOrder);
        refusal = Some((rejection.code, rejection.detail));
    }
    refusal.unwrap()
}

#[track_caller]
fn assert_refusal(refusal: (Code, String), expected: Code, part: &str) {
    assert_eq!(refusal.0, expected, "{}", refusal.1);
    assert!(refusal.1.contains(part), "{part}: {}", refusal.1);
}

async fn assert_approval_refused(group: &Group, case: &Case, fault: &str) {
    assert_refusal(refusal(group, case).await, Code::ApprovalRefused, &format!("`{fault}`"));
}

/// The case approved by Alice and Bob at this time.
fn approve_at(case: Case, claimed_at_ms: u64) -> Case {
    let tenant = Tenant("default".into());
    let subject = approval_subject(&case, &tenant);
    let at = |subject_id: &str| approval(subject_id, i64::try_from(claimed_at_ms).unwrap());
    let alice = signed(at("alice"), &subject, &key(1));
    let bob = Authenticator::new(20).signed(at("bob"), &subject);
    case.with_approvals(vec![alice, bob])
}

/// Before a rollback the node may have signed what these people approved. A compromised authority dates a second decision later, but
/// cannot date the approvals.
#[tokio::test]
async fn readmitted_node_refuses_approvals_signed_before() {
    let group = group().await;
    let node = &group.nodes[0];
    node.readmit(0).await.unwrap();
    let decided_later = |approved_at_ms| {
        let mut case = action(&group);
        case.decision.not_before_ms = EpochMs(NOW + 1);
        approve_at(case, approved_at_ms)
    };
    group.set_time(NOW + 2);
    for approved_at in [NOW - 1, NOW, NOW + 2, NOW + CLOCK_SKEW_MS] {
        let refused = node.admit(&decided_later(approved_at).request()).await;
        assert_eq!(code(refused), Code::DecidedBeforeReadmission, "{approved_at}");
    }
    // The other nodes were not restored.
    group.nodes[1].admit(&decided_later(NOW).request()).await.unwrap();
    group.set_time(NOW + CLOCK_SKEW_MS + 1);
    let fresh = decided_later(NOW + CLOCK_SKEW_MS + 1);
    node.admit(&fresh.request()).await.unwrap();
    node.policy_receipt(&fresh.call(0, EffectStep::PolicyReceipt, 1, 1)).await.unwrap();
    group.round_one(&fresh, 0, 1).await.unwrap();
    // The same decision before the readmission.
    let mut early = approve_at(action(&group), NOW + CLOCK_SKEW_MS + 1).of(OperationId(hex32(2)));
    early.decision.not_before_ms = EpochMs(NOW);
    let early = approve_at(early, NOW + CLOCK_SKEW_MS + 1);
    assert_eq!(code(node.admit(&early.request()).await), Code::DecidedBeforeReadmission);
}

#[tokio::test]
async fn operation_with_signed_approvals_is_admitted_and_signed() {
    let group = group().await;
    let case = approve(action(&group));
    group.admit(&case).await;
    group.sign(&case, 1).await;
}

#[tokio::test]
async fn forged_approvals_are_refused() {
    let group = group().await;
    let case = || approve(action(&group));
    let tenant = Tenant("default".into());
    let genuine = case();
    let alice = genuine.approvals[0].clone();
    // Not signed.
    let unsigned = action(&group).with_approvals(vec![alice.clone(), at("bob")]);
    assert_approval_refused(&group, &unsigned, "not_signed").await;
    // Signed by the gateway with a key of its own.
    let own = signed(at("bob"), &approval_subject(&genuine, &tenant), &key(66));
    assert_approval_refused(&group, &action(&group).with_approvals(vec![alice.clone(), own]), "unknown_key")
        .await;
    // In the name of a user who is not an approver, signed by an approver.
    let unregistered = signed(at("mallory"), &approval_subject(&genuine, &tenant), &key(2));
    let unregistered = action(&group).with_approvals(vec![alice.clone(), unregistered]);
    assert_approval_refused(&group, &unregistered, "unknown_approver").await;
    // Alice's approval under another name, and twice under her own.
    let mut renamed = alice.clone();
    renamed.subject_id = "bob".into();
    let renamed = action(&group).with_approvals(vec![alice.clone(), renamed]);
    assert_approval_refused(&group, &renamed, "unknown_key").await;
    let later = signed(
        approval("alice", i64::try_from(NOW).unwrap() - 1),
        &approval_subject(&genuine, &tenant),
        &key(1),
    );
    for second in [alice.clone(), later] {
        let twice = action(&group).with_approvals(vec![alice.clone(), second]);
        assert_refusal(refusal(&group, &twice).await, Code::AdmissionRefused, "1 of 2 required approvals");
    }
    // None at all.
    let none = action(&group).with_approvals(vec![]);
    assert_refusal(refusal(&group, &none).await, Code::AdmissionRefused, "0 of 2 required approvals");
    // Other approvals than the decision is based on.
    let mut others = case();
    others.approvals.pop();
    assert_refusal(refusal(&group, &others).await, Code::AdmissionRefused, "based on other approvals");
}

/// A registry in which Bob is Alice, and the submitter has a team.
fn one_person() -> SigningRule {
    let mut bob = entry("bob", &[key_entry(&key(2)), Authenticator::new(20).entry()]);
    bob["person"] = json!("alice");
    let submitter =
        json!({ "subject_id": "carol", "tenants": ["default"], "attributes": { "team": "sales" } });
    let entries = [entry("alice", &[key_entry(&key(1))]), bob, submitter];
    let approvers = Approvers::parse(registry(&entries).as_bytes()).unwrap();
    SigningRule::Required(PinnedRegistry::new(Arc::new(approvers), AGE_MAX_MS))
}

/// The case with what this registry says of its people.
fn registered(mut case: Case, rule: &SigningRule) -> Case {
    let tenant = Tenant("default".into());
    case.submitter.subject_id = "carol".into();
    case.submitter.registered = rule.registered(&tenant, "carol").unwrap();
    let mut approvals = approve(case.clone()).approvals;
    for approval in &mut approvals {
        approval.registered = rule.registered(&tenant, &approval.subject_id).unwrap();
    }
    case.with_approvals(approvals)
}

#[tokio::test]
async fn other_person_or_attribute_than_the_registry_s_is_refused() {
    let mut group = group().await;
    let rule = one_person();
    group.set_signed_approvals(rule.clone()).await;
    let sound = registered(action(&group), &rule);
    assert_refusal(refusal(&group, &sound).await, Code::AdmissionRefused, "1 of 2 required approvals");
    // Two people, as the gateway has it.
    let mut two = sound.approvals.clone();
    two[1].registered = None;
    let sound = sound.with_approvals(two);
    assert_refusal(refusal(&group, &sound).await, Code::ApprovalRefused, "`bob`: `other_registered`");
    for registered in [None, Some(Box::new(Registered { person: Some("a".into()), ..Registered::default() }))]
    {
        let mut other = sound.clone();
        other.submitter.registered = registered;
        assert_refusal(refusal(&group, &other).await, Code::ApprovalRefused, "`carol`: `other_registered`");
    }
    group.set_signed_approvals(SigningRule::Off).await;
    let refused = refusal(&group, &sound).await;
    assert_refusal(refused, Code::ApprovalRefused, "`carol`: `other_registered`");
}

#[tokio::test]
async fn approvals_are_bound_to_operation_intent_and_key() {
    let group = group().await;
    let approvals = approve(action(&group)).approvals;
    // For another operation with the same intent.
    let replayed = group.case(2, asset_action(&[0, 1, 2], 7));
    assert_approval_refused(&group, &replayed.with_approvals(approvals.clone()), "bad_signature").await;
    // For another intent of the same operation.
    let other_intent = group.case(1, asset_action(&[0, 1, 2], 8));
    assert_approval_refused(&group, &other_intent.with_approvals(approvals.clone()), "bad_signature").await;
    // For another key of the same tenant: an intent to sign a digest does not name its key.
    let other_key = action(&group).on_key("vault").with_approvals(approvals.clone());
    assert_approval_refused(&group, &other_key, "bad_signature").await;
    // With roles or a time that the approver did not sign.
    type Alter = fn(&mut Approval);
    let alterations: [(Alter, &str); 4] = [
        (|one| one.claimed_at_ms -= 1, "bad_signature"),
        (|one| one.roles.push("approver".into()), "bad_signature"),
        (|one| one.roles.clear(), "no_role"),
        (|one| one.roles.push("treasurer".into()), "role_not_held"),
    ];
    for (alter, reason) in alterations {
        let mut altered = approvals.clone();
        alter(&mut altered[0]);
        assert_approval_refused(&group, &action(&group).with_approvals(altered), reason).await;
    }
}

#[tokio::test]
async fn approvals_are_bound_to_one_tenant() {
    let group = group().await;
    let second = Tenant("second".into());
    // The key belongs to `default`, but the gateway claims another tenant.
    let genuine = approve(action(&group));
    let elsewhere = [
        signed(at("carol"), &approval_subject(&genuine, &second), &key(3)),
        signed(at("alice"), &approval_subject(&genuine, &second), &key(1)),
    ];
    let mut claimed = action(&group).with_approvals(elsewhere.to_vec());
    claimed.owner = owner("second", "treasury");
    assert_refusal(
        refusal(&group, &claimed).await,
        Code::AdmissionRefused,
        "not the key that the tenant gave",
    );
    // Carol is an approver of her own tenant only.
    let carol = signed(at("carol"), &approval_subject(&genuine, &second), &key(3));
    let carols = action(&group).with_approvals(vec![genuine.approvals[0].clone(), carol]);
    assert_approval_refused(&group, &carols, "unknown_approver").await;
    // Alice is not an approver of the second tenant.
    let mut theirs = action(&group);
    theirs.decision.key_id = key_id(&second, &KeyRef("treasury".into())).unwrap();
    let theirs = approve(theirs);
    let mut theirs = theirs.clone().with_approvals(theirs.approvals);
    theirs.owner = owner("second", "treasury");
    assert_approval_refused(&group, &theirs, "unknown_approver").await;
}

#[tokio::test]
async fn revoked_expired_and_future_keys_and_old_approvals_are_refused() {
    let group = group().await;
    let tenant = Tenant("default".into());
    let bob = approve(action(&group)).approvals[1].clone();
    for (byte, fault) in [(11, "key_revoked"), (12, "key_expired"), (13, "key_not_yet_valid")] {
        let alice = signed(at("alice"), &approval_subject(&action(&group), &tenant), &key(byte));
        assert_approval_refused(&group, &action(&group).with_approvals(vec![alice, bob.clone()]), fault)
            .await;
    }
    // Kept for too long.
    let case = approve(action(&group));
    group.set_time(NOW + AGE_MAX_MS + 1);
    assert_approval_refused(&group, &case, "too_old").await;
    group.set_time(NOW + AGE_MAX_MS - 1);
    group.admit(&case).await;
}

#[tokio::test]
async fn assertion_needs_a_verified_user_the_right_origin_and_this_statement() {
    let group = group().await;
    let tenant = Tenant("default".into());
    let alice = approve(action(&group)).approvals[0].clone();
    let case = |bob: Approval| action(&group).with_approvals(vec![alice.clone(), bob]);
    let device = Authenticator::new(20);
    let by = |device: &Authenticator| device.signed(at("bob"), &approval_subject(&action(&group), &tenant));
    for (flags, fault) in [(0x01, "user_not_verified"), (0x04, "user_not_present")] {
        let device = device.with_flags(flags);
        assert_approval_refused(&group, &case(by(&device)), fault).await;
    }
    let elsewhere = device.at_origin("https://evil.example");
    assert_approval_refused(&group, &case(by(&elsewhere)), "wrong_origin").await;
    let unregistered = Authenticator::new(21);
    assert_approval_refused(&group, &case(by(&unregistered)), "unknown_key").await;
    // Bob's assertion is for another operation.
    let of_another = group.case(2, asset_action(&[0, 1, 2], 7));
    let other = device.signed(at("bob"), &approval_subject(&of_another, &tenant));
    assert_approval_refused(&group, &case(other), "wrong_challenge").await;
}

#[tokio::test]
async fn invalid_signature_is_refused_even_where_signatures_are_optional() {
    let mut group = group().await;
    group.set_signed_approvals(SigningRule::Optional(pinned())).await;
    let tenant = Tenant("default".into());
    let own = signed(at("bob"), &approval_subject(&action(&group), &tenant), &key(66));
    let forged = action(&group).with_approvals(vec![at("alice"), own]);
    assert_approval_refused(&group, &forged, "unknown_key").await;
    group.admit(&action(&group).with_approvals(vec![at("alice"), at("dave")])).await;
}

/// A node does not refuse permanently what it cannot check: it admits the operation once it can read the registry.
#[tokio::test]
async fn admission_waits_while_the_registry_cannot_be_read() {
    for rule in [SigningRule::Required, SigningRule::Optional] {
        let rule = rule(pinned());
        let mut group = Group::with_key(3, 2, SUITES[0]).await;
        group.set_signed_approvals(rule.clone()).await;
        let case = approve(action(&group));
        rule.replace_registry(None);
        for node in &group.nodes {
            let refused = node.admit(&case.request()).await.unwrap_err();
            assert!(matches!(refused, NodeError::Unavailable { .. }), "{refused}");
            assert!(refused.to_string().contains("registry of approvers"), "{refused}");
        }
        rule.replace_registry(Some(Arc::new(approvers())));
        group.admit(&case).await;
    }
}

/// Even with the setting that permits key creations without approvals.
#[tokio::test]
async fn key_without_approvals_is_refused_where_signatures_are_required() {
    let group = Group::open(1).await;
    let mut case = Case::key_create(2, KEY, 3, 2, SUITES[0]).with_approvals(vec![]);
    case.facts.insert("deployment.required_approvals".into(), "0".into());
    case.required_approvals = 0;
    for (participant, rule, expected) in [
        (7, SigningRule::Required(pinned()), Some(Code::AdmissionRefused)),
        (8, SigningRule::Optional(pinned()), None),
        (9, SigningRule::Off, None),
    ] {
        let mut config = group.config(participant);
        config.participant = ParticipantIndex(0);
        config.settings.keys_without_approvals = true;
        config.settings.signed_approvals = rule;
        let node = Node::open(config).await.unwrap();
        node.offer_bundle(offer(bundle())).await.unwrap();
        let answer = node.admit(&case.request()).await;
        match expected {
            Some(expected) => assert_eq!(code(answer), expected),
            None => drop(answer.unwrap()),
        }
    }
}

/// The approvers of a rotation approved the new key's name, so the decision must be for the key with that name.
#[tokio::test]
async fn rotation_to_another_key_than_approved_is_refused() {
    let group = group().await;
    let change = |new_key: KeyId| {
        let target = gateway_domain::admission::Target {
            key_id: new_key,
            epoch: gateway_domain::ids::EpochName("2".into()),
            participants: roster(&[0, 1, 2]),
            threshold: gateway_domain::roster::Threshold(2),
        };
        let intent: Intent = rotate("2", &[0, 1, 2], 2);
        approve(group.case(1, intent).changing(&roster(&[0, 1, 2]), target))
    };
    let other = refusal(&group, &change(KeyId(hex32(44)))).await;
    assert_refusal(other, Code::AdmissionRefused, "not the one that the intent names");
    let named = key_id(&Tenant("default".into()), &KeyRef("successor".into())).unwrap();
    group.admit(&change(named)).await;
}

#[tokio::test]
async fn approver_who_is_revoked_after_the_admission_stops_the_signature() {
    let rule = SigningRule::Required(pinned());
    let mut group = Group::with_key(3, 2, SUITES[0]).await;
    group.set_signed_approvals(rule.clone()).await;
    let case = approve(action(&group));
    group.admit(&case).await;
    // Its age counts at the admission only.
    group.set_time(NOW + AGE_MAX_MS + 1);
    group.round_one(&case, 1, 1).await.unwrap();
    rule.replace_registry(None);
    let unread = group.round_one(&case, 0, 1).await.unwrap_err();
    assert!(matches!(unread, NodeError::Unavailable { .. }), "{unread}");
    let mut revoked = key_entry(&key(1));
    revoked["revoked_at_ms"] = json!(NOW);
    rule.replace_registry(Some(Arc::new(approvers_with(revoked))));
    let Err(NodeError::Rejected(rejection)) = group.round_one(&case, 0, 1).await else { panic!() };
    assert_refusal((rejection.code, rejection.detail), Code::ApprovalRefused, "key_revoked");
    let change = approve(group.key_change(refresh("2"), "2", &[0, 1, 2], 2).of(OperationId(hex32(5))));
    assert_eq!(code(group.nodes[0].admit(&change.request()).await), Code::ApprovalRefused);
    rule.replace_registry(Some(Arc::new(approvers())));
    group.round_one(&case, 0, 1).await.unwrap();
}

#[tokio::test]
async fn approver_who_is_revoked_after_the_admission_stops_a_change_of_the_key() {
    let rule = SigningRule::Required(pinned());
    let mut group = Group::with_key(3, 2, SUITES[0]).await;
    group.set_signed_approvals(rule.clone()).await;
    let change = approve(group.key_change(refresh("2"), "2", &[0, 1, 2], 2));
    group.admit(&change).await;
    let mut revoked = key_entry(&key(1));
    revoked["revoked_at_ms"] = json!(NOW);
    rule.replace_registry(Some(Arc::new(approvers_with(revoked))));
    let call = change.call(0, EffectStep::Execute, 1, 1);
    let dealers = (0..3).map(ParticipantIndex).collect();
    let start = CeremonyStart { dealers, package: group.keys().to_bytes(), discarded: vec![] };
    assert_eq!(code(group.nodes[0].ceremony_start(&call, &start).await), Code::ApprovalRefused);
    rule.replace_registry(Some(Arc::new(approvers())));
    group.nodes[0].ceremony_start(&call, &start).await.unwrap();
}

#[tokio::test]
async fn unsigned_approvals_admitted_before_signatures_were_required_are_refused_at_execution() {
    let mut group = Group::with_key(3, 2, SUITES[0]).await;
    let case = action(&group);
    group.admit(&case).await;
    group.round_one(&case, 0, 1).await.unwrap();
    group.set_signed_approvals(SigningRule::Required(pinned())).await;
    assert_eq!(code(group.round_one(&case, 0, 1).await), Code::ApprovalRefused);
}
