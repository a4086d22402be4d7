//! `approve` with signed approvals, and the statement in a view that approvers sign.

use super::{approved, key};
use crate::harness::approvers::{Signers, approval_now, body, sign_statement};
use crate::harness::custody;
use crate::harness::process::SIGN;
use crate::harness::samples::{approval, path, payment, submit, with};
use crate::harness::verify;
use crate::harness::world::World;
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::ids::{Hex32, KeyRef, Tenant};
use gateway_domain::intent::key_id;
use gateway_domain::testing::approvers::{Authenticator, key as seed, signed};
use serde_json::{Value, json};

#[tokio::test]
async fn key_and_authenticator_signatures_approve_both_families() {
    let signers = Signers::new();
    let world = World::with(&signers.settings("required")).await;
    verify::signature(&super::published(&world, &signers).await);
    key(&world, &signers, "cold").await;
    let sign = custody::submit(&world, &custody::key_path("cold", "/sign"), &custody::sign("a")).await;
    approved(&world, &signers, &sign, &custody::path(&sign, "/approve")).await;
    world.post_nothing(&custody::path(&sign, "/execute")).await.ok();
    let publication = json!({ "scope": "signature", "requested_at_ms": 1 });
    verify::signature(&world.post(&custody::path(&sign, "/publish"), &publication).await.ok());
}

/// The creation of a key of first use has no approvals that could be signed.
#[tokio::test]
async fn payment_without_a_key_is_refused_at_once_where_approvals_must_be_signed() {
    let signers = Signers::new();
    let world = World::with(&signers.settings("required")).await;
    world.post(SIGN, &payment("first")).await.fails(404, "custody_key_not_found");
    let listed = world.get("/v1/custody/operations").await.ok();
    assert_eq!(listed["operations"], json!([]), "an operation is left behind");
}

#[tokio::test]
async fn view_has_the_approval_statement_while_approvals_are_awaited() {
    let signers = Signers::new();
    let world = World::with(&signers.settings("optional")).await;
    let operation = submit(&world, &payment("view")).await;
    let stated = &operation["approval_statement"];
    let key_id = key_id(&Tenant("default".into()), &KeyRef("treasury-1".into())).unwrap();
    assert_eq!(stated["key_id"], json!(key_id));
    for name in ["operation_id", "intent_hash"] {
        let in_view = if name == "operation_id" { &operation[name] } else { &operation["intent"][name] };
        assert_eq!(&stated[name], in_view, "{name}");
    }
    assert_eq!((&stated["tenant"], &stated["tag"]), (&json!("default"), &json!("svc/approval-statement/v2")));
    // Filled in and signed as a client would, without our types and encodings.
    let (subject, roles, at) = (json!("alice"), json!(["approver"]), approval_now("alice").claimed_at_ms);
    let message = stated["template"].as_str().unwrap();
    let message = message.replacen("{subject_id}", &subject.to_string(), 1);
    let message = message.replacen("{roles}", &roles.to_string(), 1);
    let message = message.replacen("{approved_at_ms}", &at.to_string(), 1);
    let signature = ed25519_dalek::Signer::sign(&seed(1), message.as_bytes());
    let public_key = Hex32::new(seed(1).verifying_key().to_bytes());
    let signature = json!({ "kind": "ed25519", "public_key": public_key, "signature": hex::encode(signature.to_bytes()) });
    let body = json!({ "subject_id": subject, "roles": roles, "approved_at_ms": at, "signature": signature });
    world.post(&path(&operation, "/approve"), &body).await.ok();
    let admitted = world.post(&path(&operation, "/approve"), &signers.body(&operation, "bob")).await.ok();
    assert_eq!((&admitted["state"], &admitted["approval_statement"]), (&json!("admitted"), &Value::Null));
}

#[tokio::test]
async fn wrong_approval_signature_is_refused_and_leaves_nothing() {
    let signers = Signers::new();
    let world = World::with(&signers.settings("required")).await;
    key(&world, &signers, "treasury-1").await;
    let operation = submit(&world, &payment("wrong")).await;
    let other = submit(&world, &payment("other")).await;
    let approve = path(&operation, "/approve");
    let without_verification = signers.device.with_flags(1);
    let at_other_origin = signers.device.at_origin("https://evil.example");
    let signed_by_device = |device: &Authenticator| {
        body(&sign_statement(&operation, |subject| device.signed(approval_now("bob"), subject)))
    };
    let signed_by_key = |subject: &str, byte: u8| {
        body(&sign_statement(&operation, |about| signed(approval_now(subject), about, &seed(byte))))
    };
    let dated = |at: i64| {
        body(&sign_statement(&operation, |subject| {
            let mut approval = approval_now("alice");
            approval.claimed_at_ms = at;
            signed(approval, subject, &seed(1))
        }))
    };
    // Recent enough, but a clock skew and a millisecond before the submission: readers of the evidence would reject it.
    let before = operation["created_at_ms"].as_i64().unwrap() - i64::try_from(CLOCK_SKEW_MS).unwrap() - 1;
    for (wrong, fault) in [
        (approval("alice"), "not_signed"),
        (signers.body(&other, "alice"), "bad_signature"),
        (
            with(
                signers.body(&operation, "alice"),
                "/approved_at_ms",
                json!(approval_now("a").claimed_at_ms + 1),
            ),
            "bad_signature",
        ),
        (with(signers.body(&operation, "alice"), "/roles", json!([])), "no_role"),
        (with(signers.body(&operation, "alice"), "/subject_id", json!("carol")), "unknown_key"),
        (signed_by_key("alice", 66), "unknown_key"),
        (signed_by_key("mallory", 66), "unknown_approver"),
        (signers.body_as(&operation, "alice", &["approver", "treasurer"]), "role_not_held"),
        (dated(approval_now("alice").claimed_at_ms - 86_400_001), "too_old"),
        (dated(before), "too_old"),
        (signed_by_device(&without_verification), "user_not_verified"),
        (signed_by_device(&at_other_origin), "wrong_origin"),
        (signers.body(&other, "bob"), "wrong_challenge"),
    ] {
        let message = world.post(&approve, &wrong).await.fails(403, "approver_not_permitted");
        assert!(message.contains(&format!("`{fault}`")), "{fault}: {message}");
    }
    assert_eq!(world.get(&path(&operation, "")).await.ok(), operation, "something was stored");
    world.post(&approve, &signers.body(&operation, "alice")).await.ok();
}

#[tokio::test]
async fn unreadable_approval_signature_is_refused_with_its_place() {
    let signers = Signers::new();
    let world = World::with(&signers.settings("optional")).await;
    let operation = submit(&world, &payment("unread")).await;
    let (alice, bob) = (signers.body(&operation, "alice"), signers.body(&operation, "bob"));
    let cases = [
        (&alice, "/signature", json!("x"), "`/signature` must be an object"),
        (&alice, "/signature/kind", Value::Null, "`/signature/kind` is required"),
        (&alice, "/signature/kind", json!("rsa"), "`/signature/kind` must be one of `ed25519`, `webauthn`"),
        (&alice, "/signature/signature", Value::Null, "`/signature/signature` is required"),
        (&alice, "/signature/signature", json!("00"), "`/signature/signature` must be 128 lowercase"),
        (&alice, "/signature/public_key", Value::Null, "`/signature/public_key` is required"),
        (
            &alice,
            "/signature/public_key",
            json!("AA".repeat(32)),
            "`/signature/public_key` must be 64 lowercase",
        ),
        (
            &alice,
            "/signature/credential_id",
            json!("AA"),
            "`/signature/credential_id` is not a member of kind `ed25519`",
        ),
        (&bob, "/signature/credential_id", Value::Null, "`/signature/credential_id` is required"),
        (
            &bob,
            "/signature/client_data_json",
            json!("+/=="),
            "`/signature/client_data_json` must be base64url",
        ),
        (&bob, "/signature/authenticator_data", json!(7), "`/signature/authenticator_data` must be a string"),
        (
            &bob,
            "/signature/public_key",
            json!("00"),
            "`/signature/public_key` is not a member of kind `webauthn`",
        ),
        (
            &bob,
            "/signature/client_data_json",
            json!("A".repeat(1028)),
            "`/signature/client_data_json` must be at most",
        ),
    ];
    for (valid, pointer, value, expected) in cases {
        let wrong = with(valid.clone(), pointer, value);
        let message = world.post(&path(&operation, "/approve"), &wrong).await.fails(400, "invalid_json");
        assert!(message.starts_with(expected), "{message}");
        let preview = json!({ "intent": payment("preview"), "approvals": [valid, wrong] });
        let message = world.post("/v1/policy/preview", &preview).await.fails(400, "invalid_json");
        assert!(message.starts_with(&expected.replacen("`/", "`/approvals/1/", 1)), "{message}");
    }
    assert_eq!(world.get(&path(&operation, "")).await.ok(), operation);
}

/// Otherwise it would look as if the signature had been verified.
#[tokio::test]
async fn signed_approval_is_refused_when_signatures_are_not_verified() {
    let (signers, world) = (Signers::new(), World::start().await);
    let operation = submit(&world, &payment("off")).await;
    let approve = path(&operation, "/approve");
    let message =
        world.post(&approve, &signers.body(&operation, "alice")).await.fails(403, "approver_not_permitted");
    assert!(message.contains("`not_taken`"), "{message}");
    world.post(&approve, &approval("alice")).await.ok();
    let preview = json!({ "intent": payment("preview"), "approvals": [signers.body(&operation, "alice")] });
    world.post("/v1/policy/preview", &preview).await.ok();
}

/// A repeated approval gets the same answer. The same subject's unsigned approval is no repetition.
#[tokio::test]
async fn signed_approval_counts_once() {
    let signers = Signers::new();
    let world = World::with(&signers.settings("required")).await;
    key(&world, &signers, "treasury-1").await;
    let operation = submit(&world, &payment("once")).await;
    let approve = path(&operation, "/approve");
    let body = signers.body(&operation, "alice");
    let first = world.post(&approve, &body).await.ok();
    assert_eq!(world.post(&approve, &body).await.ok(), first);
    let missing = json!([{ "group": null, "people": 1 }]);
    let one = json!({ "approved": 1, "required": 2, "subjects": ["alice"], "missing": missing, "admit_not_before_ms": null });
    assert_eq!(first["approvals"], one);
    world.post(&approve, &approval("alice")).await.fails(403, "approver_not_permitted");
}
