//! Helpers' contributions to the recovery of a share: what determines them, and the signed statement of each helper.
//!
//! A helper's contribution to a [`RecoveryCase`] is always the same (`host/threshold/protocols.md`, section "Repair"), so a client
//! asks for the content ids before it submits the recovery. It approves them as `helper_share_cids`, and the nodes compare them.

use crate::canonical::{self, CanonicalError};
use crate::dsse::pre_authentication_encoding;
use crate::ed25519::{PublicKey, Signature};
use crate::ids::{Hex32, KeyId};
use crate::intent::Recover;
use crate::roster::{ParticipantIndex, Roster};
use serde::{Deserialize, Serialize};

/// The DSSE payload type of a helper's statement.
pub const PAYLOAD_TYPE: &str = "application/vnd.svc.helper-admission.v1+json";

/// The case of a recovery: what determines the helpers' contributions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RecoveryCase {
    /// The key.
    pub key_id: KeyId,
    /// Root of the key's active epoch.
    pub epoch_root: Hex32,
    /// The reference of the case that authorises the recovery.
    pub recovery_case_ref: String,
    /// The participant whose share is rebuilt.
    pub recovering_participant: ParticipantIndex,
    /// The participants that help.
    pub helper_participants: Roster,
}

impl RecoveryCase {
    /// The case of a recovery of a key in this epoch.
    #[must_use]
    pub fn new(key_id: KeyId, epoch_root: Hex32, recover: &Recover) -> Self {
        Self {
            key_id,
            epoch_root,
            recovery_case_ref: recover.recovery_case_ref.clone(),
            recovering_participant: recover.recovering_participant,
            helper_participants: recover.helper_participants.clone(),
        }
    }

    /// `SHA-256("svc/recovery-case/v1" || JCS(case))`: the reference of the case in the protocol.
    pub fn reference(&self) -> Result<Hex32, CanonicalError> {
        canonical::digest("svc/recovery-case/v1", self)
    }
}

/// A helper's signed statement which contribution it would make.
// It proves who named the content id; the nodes compare the contributions themselves.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = HelperAdmissionView))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HelperAdmission {
    /// The helper.
    pub participant: ParticipantIndex,
    /// The content id of its contribution.
    pub cid: Hex32,
    /// Ed25519, over the DSSE encoding of the canonical JSON `{case, cid, participant}` with the payload type
    /// `application/vnd.svc.helper-admission.v1+json`. `case` has `key_id`, `epoch_root` and the members of the request.
    pub signature: Signature,
}

/// The canonical bytes of a helper's statement: the payload of the signature.
pub fn statement(
    case: &RecoveryCase,
    participant: ParticipantIndex,
    cid: Hex32,
) -> Result<Vec<u8>, CanonicalError> {
    #[derive(Serialize)]
    struct Statement<'a> {
        case: &'a RecoveryCase,
        participant: ParticipantIndex,
        cid: Hex32,
    }
    canonical::to_bytes(&Statement { case, participant, cid })
}

impl HelperAdmission {
    /// Whether the node with this Ed25519 key signed this admission of the case.
    #[must_use]
    pub fn is_signed(&self, case: &RecoveryCase, public_key: &[u8; 32]) -> bool {
        let Ok(payload) = statement(case, self.participant, self.cid) else { return false };
        let signed = pre_authentication_encoding(PAYLOAD_TYPE, &payload);
        PublicKey::from_bytes(public_key).is_some_and(|key| key.verifies(&signed, self.signature.as_bytes()))
    }
}

/// The contributions to a case, as its helpers signed them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contributions {
    /// The case.
    pub case: RecoveryCase,
    /// The admission of each helper, ascending.
    pub admissions: Vec<HelperAdmission>,
    /// The root over the contributions.
    pub root: Hex32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_dalek::{Signer, SigningKey};

    fn case() -> RecoveryCase {
        RecoveryCase {
            key_id: KeyId(Hex32::new([1; 32])),
            epoch_root: Hex32::new([2; 32]),
            recovery_case_ref: "case-9".to_owned(),
            recovering_participant: ParticipantIndex(1),
            helper_participants: Roster::parse(&[0, 2]).unwrap(),
        }
    }

    fn others() -> [RecoveryCase; 5] {
        [
            RecoveryCase { key_id: KeyId(Hex32::new([9; 32])), ..case() },
            RecoveryCase { epoch_root: Hex32::new([9; 32]), ..case() },
            RecoveryCase { recovery_case_ref: "case-8".to_owned(), ..case() },
            RecoveryCase { recovering_participant: ParticipantIndex(3), ..case() },
            RecoveryCase { helper_participants: Roster::parse(&[0, 3]).unwrap(), ..case() },
        ]
    }

    #[test]
    fn reference_covers_every_member_of_the_case() {
        let mut references: Vec<_> = others().iter().map(|case| case.reference().unwrap()).collect();
        references.push(case().reference().unwrap());
        references.sort_unstable();
        references.dedup();
        assert_eq!(references.len(), 6);
    }

    #[test]
    fn admission_is_valid_for_its_case_node_and_content_id_only() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let (participant, cid) = (ParticipantIndex(2), Hex32::new([3; 32]));
        let payload = statement(&case(), participant, cid).unwrap();
        let signature = key.sign(&pre_authentication_encoding(PAYLOAD_TYPE, &payload)).to_bytes();
        let admission = HelperAdmission { participant, cid, signature: Signature::new(signature) };
        let public = key.verifying_key().to_bytes();
        assert!(admission.is_signed(&case(), &public));
        assert!(others().iter().all(|other| !admission.is_signed(other, &public)));
        let other_key = SigningKey::from_bytes(&[8; 32]).verifying_key().to_bytes();
        assert!(!admission.is_signed(&case(), &other_key));
        let renamed = HelperAdmission { participant: ParticipantIndex(0), ..admission.clone() };
        assert!(!renamed.is_signed(&case(), &public));
        let other_cid = HelperAdmission { cid: Hex32::new([4; 32]), ..admission };
        assert!(!other_cid.is_signed(&case(), &public));
    }
}
