//! Sample operations with enough approvals, and their key.

use gateway_domain::admission::{Admission, Derivation};
use gateway_domain::ids::{KeyId, KeyRef, Tenant};
use gateway_domain::intent::{self, Intent, Lifecycle, Payment, PublicationMode, SigningTerms};
use gateway_domain::key::{CustodyKey, PublicKey};
use gateway_domain::operation::{AdmissionRequest, KeySlot, Operation, Submission, open, replay};
use gateway_domain::policy::{Outcome, Quorum};
use gateway_domain::roster::Threshold;
use gateway_domain::samples as intents;
use gateway_domain::testing::samples::{self, Kind};
pub(crate) use gateway_domain::testing::samples::{hex32, roster};
use gateway_domain::time::EpochMs;
use policy_authority::{Authority, Refusal};
use zeroize::Zeroizing;

pub(crate) const NOT_BEFORE: EpochMs = EpochMs(1_000);
pub(crate) const NOT_AFTER: EpochMs = EpochMs(2_000);

pub(crate) fn authority(byte: u8) -> Authority {
    Authority::new(&Zeroizing::new([byte; 32]))
}

/// The id of the key `treasury` of tenant `default`.
pub(crate) fn key_id() -> KeyId {
    intent::key_id(&Tenant("default".into()), &KeyRef("treasury".into())).unwrap()
}

pub(crate) fn payment(key_ref: Option<&str>) -> Intent {
    let key_ref = key_ref.map(|name| KeyRef(name.into()));
    Intent::Payment(Payment { key_ref, ..intents::payment(intents::terms(roster(&[0, 1, 2]))) })
}

pub(crate) fn asset_action(threshold: Option<u16>) -> Intent {
    let terms = intents::terms(roster(&[0, 1, 2]));
    let terms = SigningTerms { threshold: threshold.map(Threshold), ..terms };
    Intent::AssetAction(intents::asset_action(hex32(7), terms))
}

pub(crate) fn key_create() -> Intent {
    Intent::KeyCreate(intents::key_create(roster(&[0, 1, 2, 3, 4]), 3, "frost-ed25519-sha512"))
}

fn change() -> Lifecycle {
    intents::change("2", PublicationMode::Manual)
}

pub(crate) fn refresh() -> Intent {
    samples::intent(Kind::Refresh, PublicationMode::Manual)
}

pub(crate) fn reshare(new_participants: &[u16]) -> Intent {
    Intent::Reshare(intents::reshare(change(), roster(new_participants), 3))
}

pub(crate) fn rotate() -> Intent {
    Intent::Rotate(intents::rotate(change(), "treasury-2", roster(&[2, 3, 4]), 3))
}

pub(crate) fn recover() -> Intent {
    samples::intent(Kind::Recover, PublicationMode::Manual)
}

pub(crate) fn policy(subjects: &[&str], required: u32) -> Outcome {
    let subjects: Vec<_> = subjects.iter().map(ToString::to_string).collect();
    let quorum = Quorum { subjects, required, satisfied: true, groups: Vec::new() };
    Outcome { quorum, ..samples::verdict(&[], 0) }
}

pub(crate) fn operation(intent: Intent, approvers: &[&str]) -> Operation {
    let submission = Submission {
        key: KeySlot { key_ref: KeyRef("treasury".into()), key_id: key_id() },
        policy: policy(&[], 2),
        ..samples::submission(intent, 2)
    };
    let mut operation = replay(&open(submission, EpochMs(1))).unwrap();
    operation.approvals = approvers.iter().map(|subject| samples::approval(subject, EpochMs(500))).collect();
    operation
}

pub(crate) fn key() -> CustodyKey {
    // The generator of Ed25519.
    let public_key_hex = format!("58{}", "66".repeat(31));
    let public = PublicKey { public_key_hex, package_hex: "00".into() };
    CustodyKey { key_id: key_id(), public: Some(public), ..samples::key() }
}

pub(crate) fn sign(
    operation: &Operation,
    policy: &Outcome,
    key: Option<&CustodyKey>,
) -> Result<Admission, Refusal> {
    let derivation = key.and_then(|key| derivation(&operation.intent, key));
    authority(1)
        .sign(&AdmissionRequest { derivation: derivation.as_ref(), ..request(operation, policy, key) })
}

/// The derived key of a payment without a child key. The authority does not compare the tweak.
pub(crate) fn derivation(intent: &Intent, key: &CustodyKey) -> Option<Derivation> {
    let Intent::Payment(_) = intent else { return None };
    Some(Derivation {
        payments: true,
        path: None,
        taproot: None,
        tweak: hex32(1),
        public_key_hex: key.payments_public_key_hex(),
    })
}

pub(crate) fn request<'a>(
    operation: &'a Operation,
    policy: &'a Outcome,
    key: Option<&'a CustodyKey>,
) -> AdmissionRequest<'a> {
    AdmissionRequest {
        operation,
        policy,
        key,
        derivation: None,
        not_before_ms: NOT_BEFORE,
        not_after_ms: NOT_AFTER,
    }
}
