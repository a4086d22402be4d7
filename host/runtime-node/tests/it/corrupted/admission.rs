//! Rows 1 to 8 of the table: what a node checks before it admits an operation.

use super::victims::{
    Answer, NOW, Victims, admission_of, approval_by, approval_in, approved_by, assert_refused, path,
};
use ed25519_dalek::Signer;
use gateway_domain::admission::{AdmissionDecision, Derivation, PAYLOAD_TYPE};
use gateway_domain::approval::approvals_root;
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::dsse::{self, Envelope};
use gateway_domain::ids::{KeyRef, Tenant};
use gateway_domain::intent::{Intent, OperationType, Payment};
use gateway_domain::policy::Decision;
use gateway_domain::roster::Threshold;
use gateway_domain::time::EpochMs;
use gateway_node::testing::{
    Case, NOT_AFTER, allow, approvals, asset_action, authority, bundle_key, hex32, key_id, named_bundle,
    offer, owner, paying, payment, roster, signed_bundle, submitter, trusted_bundle,
};
use gateway_node::wire::OfferBundleRequest;
use gateway_node::{AdmitRequest, Owner};

/// Sends node 0 the admission with this request.
async fn admit(victims: &Victims, case: &Case, request: &AdmitRequest) -> Answer {
    victims.post(0, &path(case, "/admission"), admission_of(case, request)).await
}

/// The payload, signed by the authority.
fn sealed(case: &Case, payload: &[u8]) -> Envelope {
    let signature = case.authority.sign(&dsse::pre_authentication_encoding(PAYLOAD_TYPE, payload));
    let keyid = dsse::key_id(&case.authority.verifying_key().to_bytes());
    Envelope::seal(PAYLOAD_TYPE, payload, &[(keyid, signature.to_bytes())])
}

/// Row 1.
#[tokio::test]
async fn decision_needs_a_pinned_signer_canonical_form_and_a_valid_time() {
    let victims = Victims::with_key().await;
    let case = victims.payment(1);
    let (valid, later) = (case.request(), {
        let mut later = case.clone();
        later.decision.not_after_ms.0 -= 1;
        later.request()
    });
    let unsigned = Envelope { signatures: vec![], ..valid.envelope.clone() };
    let moved = Envelope { payload: later.envelope.payload, ..valid.envelope.clone() };
    let spaced = sealed(&case, &serde_json::to_vec_pretty(&case.decision()).unwrap());
    let own = Case { authority: authority(9), ..case.clone() }.request().envelope;
    let mut altered = valid.envelope.clone();
    let first = &mut altered.signatures[0].sig;
    let other = if first.starts_with('A') { "B" } else { "A" };
    first.replace_range(..1, other);
    for (what, envelope) in [
        ("a decision that the attacker signs", own),
        ("a decision without a signature", unsigned),
        ("a signature over another decision", moved),
        ("a decision that is not in canonical form", spaced),
        ("an altered signature", altered),
    ] {
        let answer = admit(&victims, &case, &AdmitRequest { envelope, ..valid.clone() }).await;
        assert_refused(what, answer, "admission_refused", "");
    }
    // From here on the attacker has the authority's key.
    let longest = NOW + NOT_AFTER.0 + CLOCK_SKEW_MS;
    for (what, from, until, error) in [
        ("a decision that is not valid yet", NOW + 1, NOT_AFTER.0, "admission_expired"),
        ("a decision that is no longer valid", 0, NOW, "admission_expired"),
        ("a decision that is valid for too long", 0, longest + 1, "admission_refused"),
        ("a decision that is valid without end", 0, u64::MAX, "admission_refused"),
    ] {
        let mut case = case.clone();
        (case.decision.not_before_ms, case.decision.not_after_ms) = (EpochMs(from), EpochMs(until));
        victims.assert_not_admitted(what, &case, error, "").await;
    }
    let mut last = case;
    last.decision.not_after_ms.0 = longest;
    victims.admit(0, &last).await.unwrap();
    victims.assert_still_sign(2).await;
}

type Alter = fn(&mut Case);

/// A payment with changed members.
fn altered(change: impl FnOnce(&mut Payment)) -> Intent {
    let mut intent = payment(&[0, 1, 2], None);
    let Intent::Payment(paid) = &mut intent else { panic!() };
    change(paid);
    intent
}

/// Row 2. The attacker has the authority's key.
#[tokio::test]
async fn decision_must_fit_intent_digest_signers_threshold_epoch_and_derived_key() {
    let victims = Victims::with_key().await;
    let tricks: [(&str, Alter, &str, &str); 9] = [
        (
            "another digest",
            |it| it.decision.request_digest = hex32(99),
            "admission_refused",
            "another intent",
        ),
        ("another intent", |it| it.decision.intent_hash = hex32(99), "admission_refused", "another intent"),
        (
            "another type",
            |it| it.decision.operation_type = OperationType::Refresh,
            "admission_refused",
            "another intent",
        ),
        (
            "other signers",
            |it| it.decision.participants = roster(&[0, 1]),
            "admission_refused",
            "other signers than the intent",
        ),
        (
            "a lower threshold",
            |it| it.decision.threshold = Threshold(1),
            "admission_refused",
            "lowers the key's threshold",
        ),
        ("too high a threshold", |it| it.decision.threshold = Threshold(4), "admission_refused", ""),
        ("another epoch", |it| it.decision.epoch_root = hex32(5), "epoch_conflict", "in another epoch"),
        (
            "the key itself, for a payment",
            |it| it.decision.derivation = None,
            "admission_refused",
            "another derived key",
        ),
        (
            "a derived key",
            |it| {
                it.decision.derivation = Some(Derivation {
                    payments: true,
                    path: Some("0/1".into()),
                    taproot: None,
                    tweak: hex32(1),
                    public_key_hex: "11".repeat(32),
                });
            },
            "admission_refused",
            "another derived key",
        ),
    ];
    for (what, alter, error, part) in tricks {
        let mut case = victims.payment(1);
        alter(&mut case);
        victims.assert_not_admitted(what, &case, error, part).await;
    }
    let without_us = victims.case(2, payment(&[1, 2], None));
    victims.assert_not_admitted("other nodes", &without_us, "admission_refused", "not among").await;
    let unknown = victims.case(3, payment(&[0, 1, 2, 3], None));
    victims.assert_not_admitted("a signer without a share", &unknown, "admission_refused", "no share").await;
    let below = victims.case(6, altered(|it| it.terms.threshold = Some(Threshold(3))));
    victims.assert_not_admitted("fewer than the intent asks for", &below, "admission_refused", "").await;
    let fenced = altered(|it| it.terms.epoch_fence_token_hex = Some(hex32(7).to_string()));
    let fenced = victims.case(4, fenced);
    victims.admit(0, &fenced).await.unwrap();
    assert_refused("a stale fence", victims.receipt(0, &fenced).await, "epoch_conflict", "fence token");
    victims.assert_still_sign(5).await;
}

/// Row 3. The attacker has the authority's key.
#[tokio::test]
async fn decision_must_be_for_the_key_that_the_intent_names() {
    let victims = Victims::with_key().await;
    let naming = |id: u8, name: &str| victims.case(id, altered(|it| it.key_ref = Some(KeyRef(name.into()))));
    let named = naming(1, "vault");
    victims.assert_not_admitted("another name", &named, "admission_refused", "names another key").await;
    victims.admit(0, &naming(6, "treasury")).await.unwrap();
    for (what, claimed) in [
        ("another key's name", owner("vault")),
        ("another tenant", Owner { tenant: Tenant("second".into()), ..owner("treasury") }),
    ] {
        let mut case = victims.payment(2);
        case.owner = claimed;
        let case = approved_by(case, &["alice", "bob"]);
        victims.assert_not_admitted(what, &case, "admission_refused", "not the key that the tenant").await;
    }
    // The digest of a payment that the policy denies, as a custody signature with the key of payments.
    let paid = victims.payment(3).decision.derivation.unwrap();
    let digest = victims.case(4, asset_action(&[0, 1, 2], 7)).derived(paid);
    victims.assert_not_admitted("a digest", &digest, "admission_refused", "another derived key").await;
    victims.assert_still_sign(5).await;
}

/// Row 4. The attacker has the authority's key.
#[tokio::test]
async fn approvals_must_be_signed_by_registered_people_for_this_operation() {
    let victims = Victims::with_key().await;
    let case = victims.payment(1);
    let by = |case: &Case, name: &str| approval_by(case, name);
    let mut as_bob = by(&case, "mallory");
    as_bob.subject_id = "bob".into();
    let spelled = by(&case, "ALICE");
    let tricks = [
        ("unsigned approvals", approvals(&["alice", "bob"]), "approval_refused", "alice"),
        (
            "a person in no registry",
            vec![by(&case, "alice"), by(&case, "mallory")],
            "approval_refused",
            "mallory",
        ),
        ("the attacker's key in Bob's name", vec![by(&case, "alice"), as_bob], "approval_refused", "bob"),
        (
            "one person twice",
            vec![by(&case, "alice"), by(&case, "alice")],
            "admission_refused",
            "1 of 2 required",
        ),
        (
            "one person in two spellings",
            vec![by(&case, "alice"), spelled],
            "admission_refused",
            "1 of 2 required",
        ),
        ("one person", vec![by(&case, "bob")], "admission_refused", "1 of 2 required"),
        ("no approval", vec![], "admission_refused", "0 of 2 required"),
    ];
    for (what, approvals, error, part) in tricks {
        let case = case.clone().with_approvals(approvals);
        victims.assert_not_admitted(what, &case, error, part).await;
    }
    let mut request = case.request();
    request.approvals.swap(0, 1);
    let answer = admit(&victims, &case, &request).await;
    assert_refused("other approvals than decided", answer, "admission_refused", "other approvals");
    let others: [(&str, Alter); 5] = [
        ("an approval of another operation", |it| it.decision.operation_id.0 = hex32(2)),
        ("an approval of another intent", |it| it.decision.intent_hash = hex32(2)),
        ("an approval of another key", |it| it.decision.key_id = key_id("vault")),
        ("an approval in another tenant", |it| it.owner.tenant = Tenant("second".into())),
        ("an approval for another submitter", |it| it.submitter = submitter("erin")),
    ];
    for (what, change) in others {
        let mut other = case.clone();
        change(&mut other);
        let case = case.clone().with_approvals(vec![by(&other, "alice"), by(&case, "bob")]);
        victims.assert_not_admitted(what, &case, "approval_refused", "alice").await;
    }
    let mut of_another_intent = case.clone();
    of_another_intent.decision.approvals_root = approvals_root(hex32(1), &case.approvals).unwrap();
    let what = "approvals of another intent than decided";
    victims.assert_not_admitted(what, &of_another_intent, "admission_refused", "other approvals").await;
    victims.assert_still_sign(3).await;
}

/// Row 5. The attacker has the authority's key.
#[tokio::test]
async fn submitter_is_no_approver_and_each_role_has_its_minimum() {
    let mut victims = Victims::with_key().await;
    let mut own = victims.payment(1);
    own.submitter = submitter("alice");
    let own = approved_by(own, &["alice", "bob"]);
    victims.assert_not_admitted("the submitter's approval", &own, "admission_refused", "1 of 2").await;
    victims.approver_roles = [("treasurer".to_owned(), 1)].into();
    victims.restart().await;
    let without = victims.payment(2);
    victims
        .assert_not_admitted(
            "no treasurer",
            &without,
            "admission_refused",
            "0 of 1 required approvals in the role `treasurer`",
        )
        .await;
    let as_treasurer = |name: &str| {
        let treasurer = approval_in(&without, name, &["approver", "treasurer"]);
        without.clone().with_approvals(vec![treasurer, approval_by(&without, "bob")])
    };
    let claimed = as_treasurer("alice");
    victims.assert_not_admitted("an unregistered role", &claimed, "approval_refused", "alice").await;
    victims.admit(0, &as_treasurer("carol")).await.unwrap();
}

/// Row 6. The attacker has the authority's key.
#[tokio::test]
async fn registry_numbers_clock_and_authorities_are_the_node_s_own() {
    let victims = Victims::with_key().await;
    // What the request states about the authority, the number of approvals and the time changes nothing.
    let case = victims.payment(1);
    let own = Case { authority: authority(9), ..case.clone() };
    let body = admission_of(&own, &own.request());
    assert_eq!(body.authority_set.key_ids, [dsse::key_id(&authority(9).verifying_key().to_bytes())]);
    let answer = victims.post(0, &path(&own, "/admission"), body).await;
    assert_refused("a set of the attacker's authorities", answer, "admission_refused", "");
    let mut fewer = case.clone();
    fewer.required_approvals = 0;
    fewer.facts.insert("deployment.required_approvals".into(), "0".into());
    fewer.forge = allow;
    let fewer = approved_by(fewer, &["alice"]);
    victims.assert_not_admitted("a lower number", &fewer, "admission_refused", "1 of 2").await;
    victims.set_time(NOT_AFTER.0);
    let mut body = admission_of(&case, &case.request());
    body.now_ms = Some(gateway_service::now().0);
    let answer = victims.post(0, &path(&case, "/admission"), body).await;
    assert_refused("the caller's time", answer, "admission_expired", "");
    victims.set_time(NOW);
    victims.assert_still_sign(2).await;
}

/// Row 7. The attacker has the authority's key, and approvals that people gave by mistake.
#[tokio::test]
async fn verdict_is_that_of_the_node_s_own_run_of_the_policy() {
    let victims = Victims::with_key().await;
    let mut denied = victims.case(1, paying("acct-evil", 12_500));
    assert_eq!(denied.outcome().decision, Decision::Deny);
    denied.forge = allow;
    let why = "recipient_not_permitted";
    victims.assert_not_admitted("a denied payment", &denied, "policy_refused", why).await;
    let mut other = victims.payment(2);
    other.forge = |outcome| outcome.output_hash = outcome.input_hash;
    let why = "not the one in the decision";
    victims.assert_not_admitted("another output", &other, "policy_refused", why).await;
    let case = victims.payment(3);
    let mut request = case.request();
    request.policy.fuel_used += 1;
    let answer = admit(&victims, &case, &request).await;
    assert_refused("another amount of fuel", answer, "policy_refused", "fuel");
    let untrusted = signed_bundle(&gateway_node::testing::bundle(), &authority(9), |it| it.sequence = 9);
    let offered = OfferBundleRequest::from(&offer(untrusted));
    let answer = victims.post(0, "/v1/node/bundles", offered).await;
    assert_refused("the attacker's bundle", answer, "policy_refused", "signatures by trusted keys");
    victims.assert_still_sign(4).await;
}

/// Row 8. The attacker has the authority's key.
#[tokio::test]
async fn facts_that_contradict_the_node_are_refused() {
    let victims = Victims::with_key().await;
    for (name, value) in [
        ("deployment.permitted_recipients", "acct-2,acct-evil"),
        ("deployment.permitted_recipients", "*"),
        ("deployment.required_approvals", "1"),
        ("deployment.separation_of_duties", "false"),
    ] {
        let mut lying = victims.case(1, paying("acct-2", 12_500));
        lying.facts.insert(name.into(), value.into());
        assert_eq!(lying.outcome().decision, Decision::Allow, "by the attacker's facts");
        victims.assert_not_admitted(name, &lying, "policy_refused", &format!("`{name}={value}`")).await;
    }
    let strict = signed_bundle(&named_bundle("payment-guard-strict"), &bundle_key(), |it| it.sequence = 9);
    victims.post(0, "/v1/node/bundles", OfferBundleRequest::from(&offer(strict.clone()))).await.unwrap();
    // The bundle permits 60,000.00 EUR to a recipient in an hour. The attacker hides what was paid.
    let hiding = |id: u8, amount: i64| {
        let mut case = victims.case(id, paying("acct-2", amount));
        case.bundle = trusted_bundle(&strict);
        for name in ["account.24h.units", "account.1h.units", "recipient.24h.units", "recipient.1h.units"] {
            case.facts.insert(format!("velocity.{name}"), "0".into());
        }
        case.facts.insert("velocity.account.24h.count".into(), "0".into());
        case
    };
    for id in 10..16 {
        victims.admit(0, &hiding(id, 999_900)).await.unwrap();
    }
    let hidden = hiding(16, 999_999);
    victims.assert_not_admitted("a hidden sum", &hidden, "policy_refused", "velocity_exceeded").await;
}

/// The decision over HTTP is compared with what the request repeats of it, before the node sees it.
#[tokio::test]
async fn request_that_contradicts_its_decision_is_refused() {
    let victims = Victims::with_key().await;
    let (case, other) = (victims.payment(1), victims.payment(2));
    let AdmissionDecision { operation_id, .. } = other.decision();
    let path = format!("/v1/node/operations/{operation_id}/admission");
    let answer = victims.post(0, &path, admission_of(&case, &case.request())).await;
    assert_refused("another operation's path", answer, "invalid_json", "operation of the path");
}
