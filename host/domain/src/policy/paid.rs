//! Facts about earlier payments of a key to a recipient, which are proved: by the authorities' signed decision on the payment, which has
//! its time, and by the threshold signature that the nodes made of it.
//!
//! The signature is over a digest of the intent, the key and the operation, so it says which recipient was paid and from which key. No one
//! can make one for a payment that was not signed, and a signature cannot be counted twice. Leaving proofs out makes a recipient look newer,
//! and one without proofs has no facts.

use crate::admission::{self, AdmissionDecision, Authorities, PAYLOAD_TYPE};
use crate::approval::limits::CLOCK_SKEW_MS;
use crate::dsse::Envelope;
use crate::ed25519::Signature;
use crate::error_chain;
use crate::ids::{KeyId, OperationId};
use crate::intent::{Intent, Payment};
use crate::signature::{self, SignatureError};
use crate::time::EpochMs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The prefix of these facts. They have to be looked up, which is done only for policies that may read them.
pub const PREFIX: &str = "recipient.";

/// The fact that says when the key first paid the recipient, epoch milliseconds.
pub const FIRST_PAID_MS: &str = "recipient.first_paid_ms";

/// The fact that says how many earlier payments to the recipient are proved.
pub const PAID_COUNT: &str = "recipient.paid_count";

/// Most proofs of one evaluation: the first payment, and later ones for the count. Each is about 3 KiB, in the event, in the request to the
/// authority and in that to each node, and takes two verifications of signatures.
pub const PROOFS_MAX: usize = 4;

/// The proof of one published payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PaidProof {
    /// The payment.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub intent: Intent,
    /// The authorities' signed decision that admitted it.
    pub decision: Envelope,
    /// The threshold signature, 64 bytes.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub signature: Signature,
}

impl PaidProof {
    /// The decision in the envelope; its signatures are not verified. `None` if the envelope holds no decision.
    #[must_use]
    pub fn unverified_decision(&self) -> Option<AdmissionDecision> {
        serde_json::from_slice(&self.decision.payload(PAYLOAD_TYPE).ok()?).ok()
    }
}

/// What proofs say of a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paid {
    /// The earliest time from which a decision on one of the payments is valid.
    pub first_ms: EpochMs,
    /// The number of payments, at least 1.
    pub count: usize,
}

impl Paid {
    /// The facts, under the contract's names.
    #[must_use]
    pub fn facts(self) -> [(&'static str, String); 2] {
        [(FIRST_PAID_MS, self.first_ms.0.to_string()), (PAID_COUNT, self.count.to_string())]
    }

    /// What these proofs say, without a check of them. `None` without proofs, and if one has no decision.
    #[must_use]
    pub fn stated(proofs: &[PaidProof]) -> Option<Self> {
        let times = proofs.iter().map(|proof| Some(proof.unverified_decision()?.not_before_ms));
        let times: Option<Vec<_>> = times.collect();
        times.and_then(|times| Self::at(&times))
    }

    fn at(times: &[EpochMs]) -> Option<Self> {
        times.iter().min().map(|first| Self { first_ms: *first, count: times.len() })
    }
}

/// Why proofs are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PaidError {
    /// There are more than [`PROOFS_MAX`].
    #[error("{0} earlier payments are stated, and at most {PROOFS_MAX} are allowed")]
    TooMany(usize),
    /// The operation is not a payment.
    #[error("earlier payments are stated for an operation that pays no one")]
    NotPayment,
    /// The decision is not signed by the authorities that the verifier pins.
    #[error("an earlier payment is not proved: {0}")]
    Decision(String),
    /// A payment is the one that is decided.
    #[error("the payment itself is stated as an earlier one")]
    Itself,
    /// A payment is stated twice.
    #[error("the earlier payment `{0}` is stated twice")]
    Twice(OperationId),
    /// The payment is of another key, or another tenant.
    #[error("the earlier payment `{0}` is of another key")]
    OtherKey(OperationId),
    /// The operation did not pay this recipient.
    #[error("the earlier operation `{0}` is no payment to this recipient")]
    OtherRecipient(OperationId),
    /// The decision is on another intent.
    #[error("the decision on the earlier payment `{0}` is on another intent")]
    OtherIntent(OperationId),
    /// The decision is not valid yet.
    #[error("the earlier payment `{0}` is in the future")]
    Future(OperationId),
    /// The payment is not signed by the key.
    #[error("the earlier payment `{operation_id}` is not signed by the key: {why}")]
    Signature {
        /// The payment.
        operation_id: OperationId,
        /// The reason.
        why: SignatureError,
    },
}

/// The payment whose policy reads the facts, and what its verifier knows.
#[derive(Clone, Copy)]
pub struct Paying<'a> {
    /// The operation.
    pub operation_id: OperationId,
    /// The operation's key. Its id is that of one tenant.
    pub key_id: KeyId,
    /// The requested work.
    pub intent: &'a Intent,
    /// The authorities that the verifier pins.
    pub authorities: &'a Authorities,
    /// The verifier's time.
    pub now: EpochMs,
    /// The public key that the operation's key signs an intent with, as `<profile>:<hexadecimal>`; the decision on the intent may name it, if
    /// the verifier cannot compute it.
    pub signing_key: &'a dyn Fn(&Intent, &AdmissionDecision) -> Option<String>,
}

impl Paying<'_> {
    /// Verifies proofs of earlier payments. `None` without proofs.
    ///
    /// # Errors
    /// [`PaidError`], for the first that proves nothing.
    pub fn verify(&self, proofs: &[PaidProof]) -> Result<Option<Paid>, PaidError> {
        if proofs.is_empty() {
            return Ok(None);
        }
        let Intent::Payment(payment) = self.intent else { return Err(PaidError::NotPayment) };
        if proofs.len() > PROOFS_MAX {
            return Err(PaidError::TooMany(proofs.len()));
        }
        let (mut seen, mut times) = (BTreeSet::new(), Vec::new());
        for proof in proofs {
            let decision = self.verify_one(payment, proof)?;
            if !seen.insert(decision.operation_id) {
                return Err(PaidError::Twice(decision.operation_id));
            }
            times.push(decision.not_before_ms);
        }
        Ok(Paid::at(&times))
    }

    fn verify_one(&self, payment: &Payment, proof: &PaidProof) -> Result<AdmissionDecision, PaidError> {
        let PaidProof { intent, decision, signature } = proof;
        let verified = admission::verify_signed(decision, self.authorities);
        let decision = verified.map_err(|error| PaidError::Decision(error_chain(&error)))?.decision;
        let id = decision.operation_id;
        if id == self.operation_id {
            return Err(PaidError::Itself);
        }
        if decision.key_id != self.key_id {
            return Err(PaidError::OtherKey(id));
        }
        if !matches!(intent, Intent::Payment(earlier) if earlier.to_account == payment.to_account) {
            return Err(PaidError::OtherRecipient(id));
        }
        if intent.request_digest(id, decision.key_id).ok() != Some(decision.request_digest) {
            return Err(PaidError::OtherIntent(id));
        }
        if decision.not_before_ms > self.now.plus_ms(CLOCK_SKEW_MS) {
            return Err(PaidError::Future(id));
        }
        let key = (self.signing_key)(intent, &decision).unwrap_or_default();
        let (profile, public_key) = key.split_once(':').unwrap_or_default();
        signature::verify(profile, public_key, decision.request_digest, &signature.to_string())
            .map_err(|why| PaidError::Signature { operation_id: id, why })?;
        Ok(decision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::PublicationMode;
    use crate::testing::approvers;
    use crate::testing::paid::{KEY, Payer, payment_to};
    use crate::testing::samples::{Kind, hex32, intent};

    const NOW: EpochMs = EpochMs(1_000_000_000);

    fn id(byte: u8) -> OperationId {
        OperationId(hex32(byte))
    }

    /// What a verifier of a payment to `acct-2` says of these proofs.
    fn verified(payer: &Payer, proofs: &[PaidProof]) -> Result<Option<Paid>, PaidError> {
        verified_for(payer, &payment_to("acct-2"), proofs)
    }

    fn verified_for(payer: &Payer, intent: &Intent, proofs: &[PaidProof]) -> Result<Option<Paid>, PaidError> {
        let authorities = payer.authorities();
        let signing_key = |intent: &Intent, _: &AdmissionDecision| {
            signature::signing_key(intent, KEY, &payer.public_key_artifact_ref())
        };
        let (operation_id, key_id, now) = (id(9), KEY, NOW);
        let authorities = &authorities;
        Paying { operation_id, key_id, intent, authorities, now, signing_key: &signing_key }.verify(proofs)
    }

    #[test]
    fn first_payment_and_number_of_payments_are_proved() {
        let payer = Payer::new(7);
        let proof = |byte, at_ms| payer.proof(id(byte), payment_to("acct-2"), EpochMs(at_ms));
        let proofs = [proof(1, 500), proof(2, 300), proof(3, 400)];
        let paid = Paid { first_ms: EpochMs(300), count: 3 };
        assert_eq!(verified(&payer, &proofs), Ok(Some(paid)));
        assert_eq!(Paid::stated(&proofs), Some(paid));
        assert_eq!((verified(&payer, &[]), Paid::stated(&[])), (Ok(None), None));
        let facts = paid.facts();
        let expected = [(FIRST_PAID_MS, "300".to_owned()), (PAID_COUNT, "3".to_owned())];
        assert_eq!(facts, expected);
    }

    #[test]
    fn proof_survives_its_form_in_json() {
        let proof = Payer::new(7).proof(id(1), payment_to("acct-2"), EpochMs(5));
        let text = serde_json::to_string(&proof).unwrap();
        assert_eq!(serde_json::from_str::<PaidProof>(&text).unwrap(), proof);
        assert!(text.len() < 3 * 1024, "{} bytes", text.len());
    }

    #[test]
    fn operations_that_did_not_pay_this_recipient_prove_nothing() {
        let payer = Payer::new(7);
        let to = |recipient: &str| payer.proof(id(1), payment_to(recipient), EpochMs(1));
        let other = Err(PaidError::OtherRecipient(id(1)));
        assert_eq!(verified(&payer, &[to("acct-3")]), other);
        // The signed payment to another recipient, stated as one to this.
        let renamed = PaidProof { intent: payment_to("acct-2"), ..to("acct-3") };
        assert_eq!(verified(&payer, &[renamed]), Err(PaidError::OtherIntent(id(1))));
        let action = payer.proof(id(1), intent(Kind::AssetAction, PublicationMode::Manual), EpochMs(1));
        assert_eq!(verified(&payer, &[action]), other);
        let refresh = intent(Kind::Refresh, PublicationMode::Manual);
        assert_eq!(verified_for(&payer, &refresh, &[to("acct-2")]), Err(PaidError::NotPayment));
        assert_eq!(verified_for(&payer, &refresh, &[]), Ok(None));
    }

    #[test]
    fn payment_of_another_tenant_or_key_proves_nothing() {
        let payer = Payer::new(7);
        let other = Payer { key_id: KeyId(hex32(8)), ..Payer::new(7) };
        let proof = other.proof(id(1), payment_to("acct-2"), EpochMs(1));
        assert_eq!(verified(&payer, &[proof]), Err(PaidError::OtherKey(id(1))));
        // A key of the same id that the verifier does not hold.
        let proof = Payer::new(6).proof(id(1), payment_to("acct-2"), EpochMs(1));
        let refused = verified(&payer, &[proof]);
        assert!(matches!(refused, Err(PaidError::Signature { .. })), "{refused:?}");
    }

    #[test]
    fn payment_that_was_decided_and_not_signed_proves_nothing() {
        let payer = Payer::new(7);
        let [one, other] = [1, 2].map(|byte| payer.proof(id(byte), payment_to("acct-2"), EpochMs(1)));
        let unsigned = PaidProof { signature: Signature::new([0; 64]), ..one.clone() };
        let of_another = PaidProof { signature: other.signature, ..one };
        for proof in [unsigned, of_another] {
            let refused = verified(&payer, &[proof]);
            assert!(matches!(refused, Err(PaidError::Signature { .. })), "{refused:?}");
        }
    }

    #[test]
    fn decision_of_an_unknown_authority_proves_nothing() {
        let payer = Payer::new(7);
        let other = Payer { authority: approvers::key(3), ..Payer::new(7) };
        let proof = other.proof(id(1), payment_to("acct-2"), EpochMs(1));
        let refused = verified(&payer, &[proof]);
        assert!(matches!(refused, Err(PaidError::Decision(_))), "{refused:?}");
    }

    #[test]
    fn payment_of_the_future_proves_nothing() {
        let payer = Payer::new(7);
        let at = |at| verified(&payer, &[payer.proof(id(1), payment_to("acct-2"), at)]);
        let latest = NOW.plus_ms(CLOCK_SKEW_MS);
        assert_eq!(at(latest), Ok(Some(Paid { first_ms: latest, count: 1 })));
        assert_eq!(at(latest.plus_ms(1)), Err(PaidError::Future(id(1))));
    }

    #[test]
    fn payment_counts_once_and_not_for_itself_and_proofs_are_few() {
        let payer = Payer::new(7);
        let proof = |byte| payer.proof(id(byte), payment_to("acct-2"), EpochMs(1));
        assert_eq!(verified(&payer, &[proof(1), proof(2), proof(1)]), Err(PaidError::Twice(id(1))));
        assert_eq!(verified(&payer, &[proof(1), proof(9)]), Err(PaidError::Itself));
        let many: Vec<_> = (1..=5).map(proof).collect();
        assert_eq!(verified(&payer, &many), Err(PaidError::TooMany(5)));
        assert!(verified(&payer, &many[..PROOFS_MAX]).is_ok());
    }
}
