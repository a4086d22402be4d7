//! A key of one holder that signs payments, and the proofs of what it paid.

use super::samples::{Kind, hex32, intent};
use crate::admission::{AdmissionDecision, Authorities, PAYLOAD_TYPE};
use crate::canonical;
use crate::dsse::{self, Envelope};
use crate::ed25519;
use crate::ids::{EpochName, KeyId, OperationId};
use crate::intent::{Intent, PublicationMode};
use crate::policy::paid::PaidProof;
use crate::roster::{Roster, Threshold};
use crate::time::EpochMs;
use ed25519_dalek::Signer as _;
use k256::schnorr::SigningKey;
use k256::{Scalar, U256};

/// The id of the key of a [`Payer`].
pub const KEY: KeyId = KeyId(crate::ids::Hex32::new([2; 32]));

/// A payment to this account.
pub fn payment_to(to_account: &str) -> Intent {
    let mut intent = intent(Kind::Payment, PublicationMode::Manual);
    if let Intent::Payment(payment) = &mut intent {
        payment.to_account = to_account.to_owned();
    }
    intent
}

/// A key of profile `frost-secp256k1-sha256-tr` that one holder has, and the authority that admits what it signs.
pub struct Payer {
    /// The key's id.
    pub key_id: KeyId,
    /// The authority's key.
    pub authority: ed25519_dalek::SigningKey,
    /// The key's secret half.
    pub key: SigningKey,
}

impl Payer {
    /// A key with a fixed secret.
    pub fn new(byte: u8) -> Self {
        let authority = super::approvers::key(1);
        Self { key_id: KEY, authority, key: SigningKey::from_bytes(&[byte; 32]).unwrap() }
    }

    /// The authority, as verifiers pin it.
    pub fn authorities(&self) -> Authorities {
        Authorities::new([self.authority.verifying_key().to_bytes()], 1).unwrap()
    }

    /// The public key, hexadecimal.
    pub fn public_key_hex(&self) -> String {
        hex::encode(self.key.verifying_key().to_bytes())
    }

    /// `<profile>:<public key>`.
    pub fn public_key_artifact_ref(&self) -> String {
        format!("frost-secp256k1-sha256-tr:{}", self.public_key_hex())
    }

    /// The key for payments: see `key/payments.rs`.
    fn payments_key(&self) -> SigningKey {
        let public_key: [u8; 32] = self.key.verifying_key().to_bytes().into();
        let hashed = [*self.key_id.0.as_bytes(), public_key].concat();
        let hash = *canonical::digest_bytes("svc/payments-key/v1", &hashed).as_bytes();
        // The secret key of an even point.
        let secret = **self.key.as_nonzero_scalar()
            + <Scalar as k256::elliptic_curve::ops::Reduce<U256>>::reduce_bytes(&hash.into());
        SigningKey::from_bytes(&secret.to_bytes()).unwrap()
    }

    /// The proof that this operation was admitted from `at` on, and signed.
    pub fn proof(&self, operation_id: OperationId, intent: Intent, at: EpochMs) -> PaidProof {
        let request_digest = intent.request_digest(operation_id, self.key_id).unwrap();
        let decision = AdmissionDecision {
            operation_id,
            operation_type: intent.operation_type(),
            intent_hash: intent.hash().unwrap(),
            request_digest,
            key_id: self.key_id,
            epoch: EpochName("1".into()),
            epoch_root: hex32(9),
            participants: Roster::parse(&[0, 1]).unwrap(),
            threshold: Threshold(2),
            holders: None,
            target: None,
            derivation: None,
            bundle_hash: hex32(3),
            policy_input_hash: hex32(4),
            policy_output_hash: hex32(5),
            approvals_root: hex32(10),
            not_before_ms: at,
            not_after_ms: at.plus_ms(60_000),
        };
        let payload = decision.payload().unwrap();
        let signed = dsse::pre_authentication_encoding(PAYLOAD_TYPE, &payload);
        let keyid = dsse::key_id(&self.authority.verifying_key().to_bytes());
        let decision =
            Envelope::seal(PAYLOAD_TYPE, &payload, &[(keyid, self.authority.sign(&signed).to_bytes())]);
        let signature = self.payments_key().sign_raw(request_digest.as_bytes(), &[0; 32]).unwrap();
        PaidProof { intent, decision, signature: ed25519::Signature::new(signature.to_bytes()) }
    }
}
