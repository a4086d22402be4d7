//! Signatures by other programs, altered statements, and the signing rule.

mod registries;

use super::*;
use crate::ids::{KeyId, OperationId, Tenant};
use crate::people::Registered;
use crate::roster::ParticipantIndex;
use crate::testing::approvers::key;
use crate::testing::samples::hex32;
use ed25519_dalek::{Signer, SigningKey};
use serde::Deserialize;
use serde_json::json;

const NOW: EpochMs = EpochMs(1_790_000_060_000);

/// A statement in a vectors file.
#[derive(Deserialize)]
struct StatementVector {
    tenant: Tenant,
    operation_id: OperationId,
    key_id: KeyId,
    intent_hash: Hex32,
    subject_id: String,
    submitter: String,
    roles: Vec<String>,
    #[serde(flatten)]
    word: WordVector,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WordVector {
    Aborts { reason: String, lost_participants: BTreeSet<ParticipantIndex>, aborted_at_ms: i64 },
    Rejects { reason: String, rejected_at_ms: i64 },
    Approves { approved_at_ms: i64 },
}

impl StatementVector {
    fn approval_subject(&self) -> ApprovalSubject<'_> {
        let Self { tenant, operation_id, key_id, intent_hash, submitter, .. } = self;
        let (operation_id, key_id, intent_hash) = (*operation_id, *key_id, *intent_hash);
        ApprovalSubject { tenant, operation_id, key_id, intent_hash, submitter }
    }

    fn statement(&self) -> Statement<'_> {
        let word = match &self.word {
            WordVector::Approves { approved_at_ms } => Word::Approves { approved_at_ms: *approved_at_ms },
            WordVector::Rejects { reason, rejected_at_ms } => {
                Word::Rejects { reason, rejected_at_ms: *rejected_at_ms }
            }
            WordVector::Aborts { reason, lost_participants, aborted_at_ms } => {
                Word::Aborts { aborted_at_ms: *aborted_at_ms, lost_participants, reason }
            }
        };
        self.approval_subject().says(&self.subject_id, &self.roles, word)
    }
}

/// `host/domain/vectors/approval_statement.py` wrote the vectors. It shares no code with this crate.
#[test]
fn statements_agree_with_another_program() {
    #[derive(Deserialize)]
    struct Vector {
        name: String,
        statement: StatementVector,
        message: String,
        sha256: Hex32,
    }
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("../../vectors/approval_statement.json")).unwrap();
    assert!(vectors.len() >= 16);
    for Vector { name, statement, message, sha256 } in vectors {
        let (subject, ours) = (statement.approval_subject(), statement.statement());
        assert_eq!(String::from_utf8(ours.message().unwrap()).unwrap(), message, "{name}");
        assert_eq!(ours.digest().unwrap(), sha256, "{name}");
        // Fills in the template, as a client without a canonical encoder does.
        let template = match ours.word {
            Word::Approves { .. } => subject.template(),
            Word::Rejects { .. } => subject.rejection_template(),
            Word::Aborts { .. } => subject.abort_template(),
        };
        let mut filled = template.unwrap();
        let at_ms = ours.claimed_at_ms().to_string();
        let mut values = vec![
            ("{subject_id}", json!(ours.subject_id).to_string()),
            ("{roles}", json!(ours.roles).to_string()),
        ];
        match ours.word {
            Word::Approves { .. } => values.push(("{approved_at_ms}", at_ms)),
            Word::Rejects { reason, .. } => {
                values.extend([("{rejected_at_ms}", at_ms), ("{reason}", json!(reason).to_string())]);
            }
            Word::Aborts { reason, lost_participants, .. } => {
                let lost: Vec<_> = lost_participants.iter().map(ToString::to_string).collect();
                let lost = ("{lost_participants}", json!(lost).to_string());
                values.extend([("{aborted_at_ms}", at_ms), ("{reason}", json!(reason).to_string()), lost]);
            }
        }
        for (placeholder, value) in values {
            filled = filled.replacen(placeholder, &value, 1);
        }
        assert_eq!(filled, message, "{name}");
    }
}

/// `host/domain/vectors/webauthn.py` wrote the vectors: assertions by soft-webauthn and fido2, and the results of
/// fido2's server.
#[test]
fn assertions_are_accepted_and_rejected_as_by_fido2() {
    #[derive(Deserialize)]
    struct Vectors {
        now_ms: EpochMs,
        registry: serde_json::Value,
        cases: Vec<Case>,
    }
    #[derive(Deserialize)]
    struct Case {
        name: String,
        expected: String,
        statement: StatementVector,
        signature: ApprovalSignature,
    }
    let vectors: Vectors = serde_json::from_str(include_str!("../../vectors/webauthn.json")).unwrap();
    let approvers = Approvers::parse(vectors.registry.to_string().as_bytes()).unwrap();
    assert!(vectors.cases.len() >= 35);
    for Case { name, expected, statement, signature } in vectors.cases {
        let verified = approvers.verify(&statement.statement(), &signature, vectors.now_ms);
        let code = verified.as_ref().map_or_else(ApprovalError::as_str, |()| "ok");
        assert_eq!(code, expected, "{name}: {verified:?}");
        let stored: ApprovalSignature = serde_json::from_value(json!(signature)).unwrap();
        assert_eq!(stored, signature);
    }
}

fn public(key: &SigningKey) -> Hex32 {
    Hex32::new(key.verifying_key().to_bytes())
}

fn entry(subject_id: &str, tenants: &[&str], roles: &[&str], key: &SigningKey) -> serde_json::Value {
    let keys = [json!({ "kind": "ed25519", "public_key": public(key) })];
    json!({ "subject_id": subject_id, "tenants": tenants, "roles": roles, "keys": keys })
}

fn registry(entries: &[serde_json::Value]) -> Approvers {
    let file = json!({ "format": "svc/approvers/v2", "approvers": entries });
    Approvers::parse(file.to_string().as_bytes()).unwrap()
}

struct SignedApproval {
    tenant: Tenant,
    operation_id: OperationId,
    key_id: KeyId,
    intent_hash: Hex32,
    submitter: String,
    approval: Approval,
}

impl SignedApproval {
    fn by(signing: &SigningKey) -> Self {
        let approval = Approval {
            subject_id: "alice".into(),
            roles: vec!["approver".into()],
            registered: None,
            claimed_at_ms: 1_790_000_000_000,
            approved_at_ms: NOW,
            signature: None,
        };
        let (operation_id, key_id) = (OperationId(hex32(3)), KeyId(hex32(2)));
        let (tenant, submitter) = (Tenant("default".into()), "carol".into());
        let mut signed = Self { tenant, operation_id, key_id, intent_hash: hex32(1), submitter, approval };
        signed.sign(signing);
        signed
    }

    fn approval_subject(&self) -> ApprovalSubject<'_> {
        let Self { tenant, operation_id, key_id, intent_hash, submitter, .. } = self;
        let (operation_id, key_id, intent_hash) = (*operation_id, *key_id, *intent_hash);
        ApprovalSubject { tenant, operation_id, key_id, intent_hash, submitter }
    }

    fn sign(&mut self, signing: &SigningKey) {
        let message = self.approval_subject().statement(&self.approval).message().unwrap();
        let signature = Signature::new(signing.sign(&message).to_bytes());
        let signature = ApprovalSignature::Ed25519 { public_key: public(signing), signature };
        self.approval.signature = Some(Box::new(signature));
    }

    fn alter_signature(&mut self, alter: impl FnOnce(&mut [u8; 64])) {
        match self.approval.signature.as_deref_mut() {
            Some(ApprovalSignature::Ed25519 { signature, .. }) => {
                let mut bytes = *signature.as_bytes();
                alter(&mut bytes);
                *signature = Signature::new(bytes);
            }
            other => panic!("{other:?}"),
        }
    }
}

fn pinned(approvers: Approvers) -> PinnedRegistry {
    PinnedRegistry::new(std::sync::Arc::new(approvers), 60_000)
}

fn required() -> SigningRule {
    let alice = entry("alice", &["default", "second"], &["approver"], &key(1));
    let bob = entry("bob", &["*"], &["approver"], &key(2));
    SigningRule::Required(pinned(registry(&[alice, bob])))
}

#[track_caller]
fn code(rule: &SigningRule, signed: &SignedApproval) -> &'static str {
    let subject = signed.approval_subject();
    let checked = rule.check(&subject.statement(&signed.approval), signed.approval.signature.as_deref(), NOW);
    checked.as_ref().map_or_else(ApprovalError::as_str, |()| "ok")
}

#[test]
fn signature_covers_every_member_of_the_statement() {
    assert_eq!(code(&required(), &SignedApproval::by(&key(1))), "ok");
    type Alter = fn(&mut SignedApproval);
    let altered: [(Alter, &str); 10] = [
        (|signed| signed.submitter = "alice".into(), "bad_signature"),
        (|signed| signed.tenant.0 = "second".into(), "bad_signature"),
        (|signed| signed.tenant.0 = "third".into(), "unknown_approver"),
        (|signed| signed.operation_id.0 = hex32(4), "bad_signature"),
        (|signed| signed.key_id.0 = hex32(4), "bad_signature"),
        (|signed| signed.intent_hash = hex32(4), "bad_signature"),
        (|signed| signed.approval.claimed_at_ms += 1, "bad_signature"),
        (|signed| signed.approval.roles.clear(), "no_role"),
        (|signed| signed.approval.roles.push("treasurer".into()), "role_not_held"),
        (|signed| signed.approval.subject_id = "bob".into(), "unknown_key"),
    ];
    for (index, (alter, expected)) in altered.into_iter().enumerate() {
        let mut signed = SignedApproval::by(&key(1));
        alter(&mut signed);
        assert_eq!(code(&required(), &signed), expected, "{index}");
    }
}

#[test]
fn altered_signature_or_another_key_is_rejected() {
    let mut signed = SignedApproval::by(&key(1));
    signed.alter_signature(|signature| signature[5] ^= 1);
    assert_eq!(code(&required(), &signed), "bad_signature");
    // S + L is the same scalar: a second encoding of the signature, unless its range is checked (RFC 8032, section 8.4).
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut signed = SignedApproval::by(&key(1));
    signed.alter_signature(|signature| {
        let mut carry = 0_u16;
        for (byte, order) in signature[32..].iter_mut().zip(ORDER) {
            carry += u16::from(*byte) + u16::from(order);
            *byte = carry as u8;
            carry >>= 8;
        }
    });
    assert_eq!(code(&required(), &signed), "bad_signature");
    assert_eq!(code(&required(), &SignedApproval::by(&key(9))), "unknown_key");
    // Bob's key does not sign for Alice.
    assert_eq!(code(&required(), &SignedApproval::by(&key(2))), "unknown_key");
}

#[test]
fn rule_decides_whether_unsigned_approvals_are_accepted() {
    let SigningRule::Required(pinned) = required() else { panic!() };
    let optional = SigningRule::Optional(pinned);
    let mut unsigned = SignedApproval::by(&key(1));
    unsigned.approval.signature = None;
    let signed = SignedApproval::by(&key(1));
    assert_eq!([code(&required(), &unsigned), code(&required(), &signed)], ["not_signed", "ok"]);
    assert_eq!([code(&optional, &unsigned), code(&optional, &signed)], ["ok", "ok"]);
    assert_eq!(code(&optional, &SignedApproval::by(&key(9))), "unknown_key");
    assert_eq!([code(&SigningRule::Off, &unsigned), code(&SigningRule::Off, &signed)], ["ok", "not_taken"]);
}

#[test]
fn approver_of_the_registry_acts_in_at_least_one_of_its_roles_signed_or_not() {
    let SigningRule::Required(pinned) = required() else { panic!() };
    let rules = [SigningRule::Required(pinned.clone()), SigningRule::Optional(pinned)];
    let in_roles = |subject: &str, roles: &[&str]| {
        let mut signed = SignedApproval::by(&key(1));
        signed.approval.subject_id = subject.into();
        signed.approval.roles = roles.iter().map(ToString::to_string).collect();
        signed.sign(&key(1));
        signed
    };
    for rule in &rules {
        assert_eq!(code(rule, &in_roles("alice", &[])), "no_role");
        assert_eq!(code(rule, &in_roles("alice", &["treasurer"])), "role_not_held");
    }
    let unsigned = |subject: &str, roles: &[&str]| {
        let mut unsigned = in_roles(subject, roles);
        unsigned.approval.signature = None;
        code(&rules[1], &unsigned)
    };
    assert_eq!([unsigned("alice", &[]), unsigned("ALICE", &[])], ["no_role"; 2]);
    assert_eq!(unsigned("alice", &["treasurer"]), "role_not_held");
    assert_eq!([unsigned("alice", &["approver"]), unsigned("dora", &[])], ["ok"; 2], "dora has no entry");
}

/// Signed by the same person under another spelling of its name, which the statement has as it came.
#[test]
fn registry_finds_an_approver_in_any_spelling_of_its_name() {
    let renee = entry("Ren\u{e9}e", &["default"], &["approver"], &key(1));
    let rule = SigningRule::Required(pinned(registry(&[renee])));
    for spelling in ["Ren\u{e9}e", "rene\u{301}e", "REN\u{c9}E", "\u{ff32}en\u{e9}e"] {
        let mut signed = SignedApproval::by(&key(1));
        signed.approval.subject_id = spelling.into();
        assert_eq!(code(&rule, &signed), "bad_signature", "{spelling}: signed as another");
        signed.sign(&key(1));
        assert_eq!(code(&rule, &signed), "ok", "{spelling}");
        assert!(
            rule.entry_of(&signed.tenant, spelling).is_some_and(|entry| entry.subject_id == "Ren\u{e9}e")
        );
    }
    let mut other = SignedApproval::by(&key(1));
    other.approval.subject_id = "renee".into();
    other.sign(&key(1));
    assert_eq!(code(&rule, &other), "unknown_approver");
}

#[test]
fn spellings_of_one_person_are_counted_once() {
    let by = |subject: &str| crate::testing::approvers::approval(subject, 1);
    let spellings = ["Alice", "ALICE", " alice", "ali\u{ad}ce", "\u{ff21}lice"].map(by);
    assert_eq!(n_distinct_people(&spellings), 1);
    assert_eq!(n_distinct_people(spellings.iter().chain([&by("bob"), &by("B\u{14d}b")])), 3);
}

fn person(name: &str) -> Option<Box<Registered>> {
    Some(Box::new(Registered { person: Some(name.to_owned()), ..Registered::default() }))
}

#[test]
fn subjects_of_one_person_are_counted_once() {
    let by = |subject: &str, registered| Approval {
        registered,
        ..crate::testing::approvers::approval(subject, 1)
    };
    let approvals = [by("alice", None), by("phone", person("ALICE")), by("bob", person("rob"))];
    assert_eq!(n_distinct_people(&approvals), 2);
    assert_eq!(n_distinct_people(&approvals[..2]), 1);
}

#[test]
fn approval_that_says_something_else_of_its_approver_than_the_registry_does_not_count() {
    let mut alice = entry("alice", &["default"], &["approver"], &key(1));
    alice["person"] = json!("alice.meier");
    alice["attributes"] = json!({ "team": "treasury" });
    let rules = [SigningRule::Required, SigningRule::Optional]
        .map(|rule| rule(pinned(registry(std::slice::from_ref(&alice)))));
    let signed = SignedApproval::by(&key(1));
    let own = rules[0].registered(&signed.tenant, "ALICE").unwrap();
    assert_eq!(
        serde_json::to_value(&own).unwrap(),
        json!({ "person": "alice.meier", "attributes": { "team": "treasury" } })
    );
    let mut of_other_team = own.clone().unwrap();
    of_other_team.attributes.insert("team".to_owned(), "sales".to_owned());
    let mut with_region = own.clone().unwrap();
    with_region.attributes.insert("region".to_owned(), "eu".to_owned());
    for rule in &rules {
        let fault = |registered: Option<Box<Registered>>| {
            let approval = Approval { registered, ..signed.approval.clone() };
            let checked = rule.check_approval(&signed.approval_subject(), &approval, NOW);
            let lapsed = rule.lapsed(&signed.approval_subject(), &[approval], NOW, 0).unwrap();
            let lapsed = lapsed.first().map(|one| one.reason.clone());
            assert_eq!(lapsed.as_deref(), checked.as_ref().err().map(ApprovalError::as_str));
            lapsed.unwrap_or_default()
        };
        assert_eq!(fault(own.clone()), "");
        for other in [None, person("alice.meier"), Some(of_other_team.clone()), Some(with_region.clone())] {
            assert_eq!(fault(other), "other_registered");
        }
    }
    let unlisted = rules[0].registered(&Tenant("second".into()), "alice");
    assert_eq!((unlisted, SigningRule::Off.registered(&signed.tenant, "alice")), (Ok(None), Ok(None)));
    let off = SigningRule::Off.check_registered(&signed.tenant, "alice", own.as_deref());
    assert_eq!(off, Err(ApprovalError::OtherRegistered), "a party without a registry knows of no person");
    rules[0].replace_registry(None);
    assert_eq!(rules[0].registered(&signed.tenant, "alice"), Err(ApprovalError::NoRegistry));
}

#[test]
fn subject_without_keys_is_registered_and_approves_nothing() {
    let carol = json!({ "subject_id": "carol", "tenants": ["default"], "attributes": { "team": "sales" } });
    let rule = SigningRule::Optional(pinned(registry(&[carol])));
    let mut signed = SignedApproval::by(&key(1));
    assert_eq!(rule.registered(&signed.tenant, "carol").unwrap().unwrap().attributes["team"], "sales");
    signed.approval.subject_id = "carol".into();
    signed.sign(&key(1));
    assert_eq!(code(&rule, &signed), "unknown_key");
    signed.approval.signature = None;
    assert_eq!(code(&rule, &signed), "role_not_held");
    signed.approval.roles.clear();
    assert_eq!(code(&rule, &signed), "no_role");
}

#[test]
fn without_a_registry_no_approval_is_accepted_signed_or_not() {
    let SigningRule::Required(pinned) = required() else { panic!() };
    let sound = registry(&[entry("alice", &["default"], &["approver"], &key(1))]);
    let rules = [SigningRule::Required(pinned.clone()), SigningRule::Optional(pinned)];
    let signed = SignedApproval::by(&key(1));
    let mut unsigned = SignedApproval::by(&key(1));
    unsigned.approval.signature = None;
    rules[0].replace_registry(None);
    for rule in &rules {
        assert_eq!([code(rule, &signed), code(rule, &unsigned)], ["no_registry"; 2], "{rule:?}");
        assert!(!rule.can_verify());
    }
    rules[1].replace_registry(Some(std::sync::Arc::new(sound)));
    assert!(rules.iter().all(|rule| rule.can_verify() && code(rule, &signed) == "ok"));
    let never = SigningRule::Optional(PinnedRegistry::without_registry(60_000));
    assert_eq!((code(&never, &unsigned), never.can_verify()), ("no_registry", false));
    SigningRule::Off.replace_registry(None);
    assert!(SigningRule::Off.can_verify());
}

#[test]
fn approval_that_is_too_old_or_in_the_future_is_rejected() {
    let at = |claimed_at_ms: i64| {
        let mut signed = SignedApproval::by(&key(1));
        signed.approval.claimed_at_ms = claimed_at_ms;
        signed.sign(&key(1));
        code(&required(), &signed)
    };
    let now = i64::try_from(NOW.0).unwrap();
    let skew = i64::try_from(limits::CLOCK_SKEW_MS).unwrap();
    assert_eq!([at(now - 60_000), at(now - 60_001)], ["ok", "too_old"]);
    assert_eq!([at(now + skew), at(now + skew + 1)], ["ok", "in_future"]);
    assert_eq!([at(-1), at(i64::MIN), at(i64::MAX)], ["too_old", "too_old", "in_future"]);
}

#[test]
fn key_outside_its_validity_is_rejected() {
    let signing = key(1);
    let validity = |members: serde_json::Value| {
        let mut alice = entry("alice", &["default"], &["approver"], &signing);
        let key = alice["keys"][0].as_object_mut().unwrap();
        key.extend(members.as_object().unwrap().clone());
        code(&SigningRule::Required(pinned(registry(&[alice]))), &SignedApproval::by(&signing))
    };
    let now = NOW.0;
    assert_eq!(
        validity(json!({ "not_before_ms": now, "not_after_ms": now + 1, "revoked_at_ms": now + 1 })),
        "ok"
    );
    assert_eq!(validity(json!({ "not_before_ms": now + 1 })), "key_not_yet_valid");
    assert_eq!(validity(json!({ "not_after_ms": now })), "key_expired");
    assert_eq!(validity(json!({ "revoked_at_ms": now })), "key_revoked");
    assert_eq!(validity(json!({ "revoked_at_ms": 0, "not_after_ms": now })), "key_revoked");
}

#[test]
fn signature_has_exactly_one_text() {
    let sound = json!({ "kind": "ed25519", "public_key": "2a".repeat(32), "signature": "2b".repeat(64) });
    assert!(serde_json::from_value::<ApprovalSignature>(sound.clone()).is_ok());
    for (name, value) in [
        ("signature", json!("2B".repeat(64))),
        ("signature", json!("2b".repeat(63))),
        ("public_key", json!("2A".repeat(32))),
        ("kind", json!("rsa")),
        ("more", json!(1)),
    ] {
        let mut wrong = sound.clone();
        wrong[name] = value;
        assert!(serde_json::from_value::<ApprovalSignature>(wrong).is_err(), "{name}");
    }
    for text in ["YQ==", "YQ=", "Y", "YR", "a+b/", " YQ", "YQ\n"] {
        assert!(text.parse::<Base64Url>().is_err(), "{text}");
    }
    assert_eq!("YQ".parse::<Base64Url>().unwrap().0, b"a");
}

/// Approvals of earlier releases have no member for a signature.
#[test]
fn unsigned_approvals_keep_their_digest() {
    let old =
        json!([{ "subject_id": "alice", "roles": ["approver"], "claimed_at_ms": 1, "approved_at_ms": 2 }]);
    let read: Vec<Approval> = serde_json::from_value(old.clone()).unwrap();
    assert_eq!(json!(read), old);
    let root = canonical::digest("svc/approvals/v1", &json!({ "intent_hash": hex32(1), "approvals": old }));
    assert_eq!(approvals_root(hex32(1), &read).unwrap(), root.unwrap());
    let mut signed = read.clone();
    signed[0].signature = SignedApproval::by(&key(1)).approval.signature;
    assert_ne!(approvals_root(hex32(1), &signed).unwrap(), approvals_root(hex32(1), &read).unwrap());
    let mut other = signed.clone();
    other[0].signature = SignedApproval::by(&key(2)).approval.signature;
    assert_ne!(approvals_root(hex32(1), &signed).unwrap(), approvals_root(hex32(1), &other).unwrap());
}

/// A signature over an approval is none over a rejection of the same operation, nor this over an abort; the reason and the lost nodes are
/// signed.
#[test]
fn signature_of_an_approval_rejects_nothing_and_that_of_a_rejection_aborts_nothing() {
    let signing = key(1);
    let signed = SignedApproval::by(&signing);
    let mut rejection = Rejection {
        subject_id: signed.approval.subject_id.clone(),
        roles: signed.approval.roles.clone(),
        registered: None,
        reason: "not our supplier".to_owned(),
        lost: None,
        claimed_at_ms: signed.approval.claimed_at_ms,
        rejected_at_ms: NOW,
        signature: None,
    };
    let subject = signed.approval_subject();
    let check = |rejection: &Rejection, signature: &ApprovalSignature| {
        let checked = required().check(&subject.rejection(rejection), Some(signature), NOW);
        checked.map_err(|fault| fault.as_str())
    };
    let approves = signed.approval.signature.as_deref().unwrap();
    assert_eq!(check(&rejection, approves), Err("bad_signature"));
    let sign = |rejection: &Rejection| {
        let signature = signing.sign(&subject.rejection(rejection).message().unwrap());
        let signature = Signature::new(signature.to_bytes());
        ApprovalSignature::Ed25519 { public_key: public(&signing), signature }
    };
    let rejects = sign(&rejection);
    assert_eq!(check(&rejection, &rejects), Ok(()));
    rejection.reason.push('!');
    assert_eq!(check(&rejection, &rejects), Err("bad_signature"));
    rejection.lost = Some(BTreeSet::new());
    assert_eq!(check(&rejection, &rejects), Err("bad_signature"));
    let aborts = sign(&rejection);
    assert_eq!(check(&rejection, &aborts), Ok(()));
    rejection.lost = Some(BTreeSet::from([ParticipantIndex(2)]));
    assert_eq!(check(&rejection, &aborts), Err("bad_signature"));
}
