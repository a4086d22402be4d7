//! Approvals, and the signatures of approvers where the deployment requires them.
//!
//! Reading order: [`Statement`] (the bytes that an approver signs), [`ApprovalSignature`], [`Approvers`] (the registry of
//! trusted keys), [`SigningRule`] (whether approvals must be signed), [`ApprovalError`] (why an approval is rejected). The
//! gateway, the nodes and the offline verifier use this code, each with its own registry.

mod approvers;
mod error;
pub mod limits;
mod registry;
mod rule;
mod signature;
mod statement;
#[cfg(test)]
mod tests;
mod view;
mod webauthn;

pub use crate::ed25519::Signature;
pub use approvers::Approvers;
pub use error::ApprovalError;
pub use registry::{Algorithm, ApproverEntry, ApproversFile, KeyEntry, RegistryError, Validity};
pub use rule::{PinnedRegistry, SigningRule, check_claimed_time};
pub use signature::{ApprovalSignature, Base64Url};
pub use statement::{ABORT_TAG, APPROVAL_TAG, ApprovalSubject, REJECTION_TAG, Statement, Word};
pub use view::{Approvable, AwaitingView, ViewError};

use crate::binding::ClientBinding;
use crate::canonical::{self, CanonicalError};
use crate::ids::Hex32;
use crate::names;
use crate::people::{self, Registered};
use crate::roster::ParticipantIndex;
use crate::time::EpochMs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// An approval.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = EvidenceApproval))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The approver's subject id.
    pub subject_id: String,
    /// The approver's roles.
    pub roles: Vec<String>,
    /// What the gateway's registry said of the subject when it received the approval; absent if nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub registered: Option<Box<Registered>>,
    /// The time by the approver's clock, milliseconds since 1970.
    // Unverified, but covered by the signature.
    pub claimed_at_ms: i64,
    /// The time at which the gateway received it, milliseconds since 1970.
    pub approved_at_ms: EpochMs,
    /// The approver's signature, if the approval is signed: see `host/docs/approvals.md`.
    // Without one, only the gateway states that the subject approved.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub signature: Option<Box<ApprovalSignature>>,
}

impl Approval {
    /// The person who approved: see [`people::person`].
    #[must_use]
    pub fn person(&self) -> &str {
        people::person(&self.subject_id, self.registered.as_deref())
    }

    /// Whether the submitter gave it.
    #[must_use]
    pub fn is_by(&self, submitter: &ClientBinding) -> bool {
        names::is_same_person(self.person(), submitter.person())
    }

    /// The time from which its age counts: when the gateway received it, or the time by the approver's clock if that is signed and
    /// earlier.
    #[must_use]
    pub fn given_at(&self) -> EpochMs {
        let claimed = EpochMs(u64::try_from(self.claimed_at_ms).unwrap_or(0));
        if self.signature.is_some() { claimed.min(self.approved_at_ms) } else { self.approved_at_ms }
    }

    /// Checks that a signed approval was not received before its approver signed it, with a tolerance of
    /// [`CLOCK_SKEW_MS`](limits::CLOCK_SKEW_MS): a gateway that dates it back could end a wait early.
    ///
    /// # Errors
    /// [`ApprovalError::Backdated`].
    pub fn check_received(&self) -> Result<(), ApprovalError> {
        let signed_at = self.signature.as_ref().map(|_| u64::try_from(self.claimed_at_ms).unwrap_or(0));
        match signed_at {
            Some(signed_at) if signed_at > self.approved_at_ms.plus_ms(limits::CLOCK_SKEW_MS).0 => {
                Err(ApprovalError::Backdated)
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// An approval that no longer counts.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = LapsedApprovalView))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LapsedApproval {
    /// The approver's subject id.
    pub subject_id: String,
    /// The reason: `key_revoked`, `key_expired`, `too_old`, `role_not_held` and others (`host/docs/approvals.md`).
    pub reason: String,
}

/// A rejection of one operation by one subject that could have approved it: before the operation is admitted, or, for a change of a key,
/// an abort after that. Nodes do not know of it: a gateway that forgets it can go on, as one that never sent it could.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// The approver's subject id.
    pub subject_id: String,
    /// The approver's roles.
    pub roles: Vec<String>,
    /// See [`Approval::registered`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub registered: Option<Box<Registered>>,
    /// The reason, for people.
    pub reason: String,
    /// For an abort, the receivers of new shares that are lost; empty before the result is certain. `None` before the admission.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lost: Option<BTreeSet<ParticipantIndex>>,
    /// The time of the rejection by the approver's clock, epoch milliseconds, unverified.
    pub claimed_at_ms: i64,
    /// The time at which the gateway received the rejection, by its clock.
    pub rejected_at_ms: EpochMs,
    /// The approver's signature over [`Statement`]. Without one, only the gateway states that the subject rejected.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signature: Option<Box<ApprovalSignature>>,
}

impl Rejection {
    /// The person who rejected: see [`people::person`].
    #[must_use]
    pub fn person(&self) -> &str {
        people::person(&self.subject_id, self.registered.as_deref())
    }

    /// What the subject's approval would be, to find out whether the policy counts it.
    #[must_use]
    pub fn as_approval(&self) -> Approval {
        Approval {
            subject_id: self.subject_id.clone(),
            roles: self.roles.clone(),
            registered: self.registered.clone(),
            claimed_at_ms: self.claimed_at_ms,
            approved_at_ms: self.rejected_at_ms,
            signature: None,
        }
    }
}

/// Digest of the approvals of an intent, with their signatures and what the registry says of the approvers, which the admission decision includes.
pub fn approvals_root(intent_hash: Hex32, approvals: &[Approval]) -> Result<Hex32, CanonicalError> {
    #[derive(Serialize)]
    struct Approved<'a> {
        intent_hash: Hex32,
        approvals: &'a [Approval],
    }
    canonical::digest("svc/approvals/v1", &Approved { intent_hash, approvals })
}

/// The number of different people who approved.
#[must_use]
pub fn n_distinct_people<'a>(approvals: impl IntoIterator<Item = &'a Approval>) -> u32 {
    let people: BTreeSet<_> =
        approvals.into_iter().map(|approval| names::compared(approval.person())).collect();
    u32::try_from(people.len()).unwrap_or(u32::MAX)
}
