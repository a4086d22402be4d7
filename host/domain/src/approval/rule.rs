//! Whether approvals must be signed, and the check of one approval.

use super::limits::CLOCK_SKEW_MS;
use super::{
    Approval, ApprovalError, ApprovalSignature, ApprovalSubject, ApproverEntry, Approvers, LapsedApproval,
    Statement,
};
use crate::ids::Tenant;
use crate::people::Registered;
use crate::time::EpochMs;
use std::sync::{Arc, PoisonError, RwLock};

/// Whether approvals are signed by their approvers.
#[derive(Clone, Debug, Default)]
pub enum SigningRule {
    /// Approvals are not signed; a signed one is rejected.
    #[default]
    Off,
    /// Signed approvals are verified; unsigned ones are accepted too, in roles that the registry gives their approvers if it lists them.
    Optional(PinnedRegistry),
    /// Only signed approvals are accepted.
    Required(PinnedRegistry),
}

/// The current registry, and the age limit of approvals. Clones share the registry: a replacement takes effect for all.
#[derive(Clone, Debug)]
pub struct PinnedRegistry {
    /// `None` while the registry cannot be read. The unread change may be a revocation, so no approval counts.
    approvers: Arc<RwLock<Option<Arc<Approvers>>>>,
    age_max_ms: u64,
}

impl SigningRule {
    /// Whether unsigned approvals are rejected.
    #[must_use]
    pub const fn is_required(&self) -> bool {
        matches!(self, Self::Required(_))
    }

    /// Whether signatures are verified where they are present.
    #[must_use]
    pub const fn verifies(&self) -> bool {
        matches!(self, Self::Optional(_) | Self::Required(_))
    }

    /// Whether approvals can be accepted: when signatures are verified, only while the registry can be read.
    #[must_use]
    pub fn can_verify(&self) -> bool {
        match self {
            Self::Off => true,
            Self::Optional(pinned) | Self::Required(pinned) => pinned.registry().is_ok(),
        }
    }

    /// The registry's entry of this approver for the tenant, with all its keys; `None` while the registry cannot be read.
    #[must_use]
    pub fn entry_of(&self, tenant: &Tenant, subject_id: &str) -> Option<ApproverEntry> {
        match self {
            Self::Off => None,
            Self::Optional(pinned) | Self::Required(pinned) => {
                pinned.registry().ok()?.entry_of(tenant, subject_id).cloned()
            }
        }
    }

    /// An approval of everyone who can approve the tenant's operations now; `None` if others can, or the registry cannot be read.
    #[must_use]
    pub fn everyone(&self, tenant: &Tenant, now: EpochMs) -> Option<Vec<Approval>> {
        match self {
            Self::Off | Self::Optional(_) => None,
            Self::Required(pinned) => Some(pinned.registry().ok()?.everyone(tenant, now)),
        }
    }

    /// What the registry says of a subject in operations of the tenant. Without a registry, nothing is said of anybody.
    ///
    /// # Errors
    /// [`ApprovalError::NoRegistry`] while the registry cannot be read.
    pub fn registered(
        &self,
        tenant: &Tenant,
        subject_id: &str,
    ) -> Result<Option<Box<Registered>>, ApprovalError> {
        match self {
            Self::Off => Ok(None),
            Self::Optional(pinned) | Self::Required(pinned) => {
                let approvers = pinned.registry()?;
                Ok(approvers.registered(tenant, subject_id).cloned().map(Box::new))
            }
        }
    }

    /// Checks that this is what the registry says of a subject.
    ///
    /// # Errors
    /// [`ApprovalError`]: `NoRegistry`, `OtherRegistered`.
    pub fn check_registered(
        &self,
        tenant: &Tenant,
        subject_id: &str,
        recorded: Option<&Registered>,
    ) -> Result<(), ApprovalError> {
        let is_same = match self {
            Self::Off => recorded.is_none(),
            Self::Optional(pinned) | Self::Required(pinned) => {
                pinned.registry()?.registered(tenant, subject_id) == recorded
            }
        };
        if is_same { Ok(()) } else { Err(ApprovalError::OtherRegistered) }
    }

    /// Replaces the registry in this rule and all its clones. With `None`, no approval is accepted, signed or not.
    /// Does nothing if the rule is `Off`.
    pub fn replace_registry(&self, approvers: Option<Arc<Approvers>>) {
        if let Self::Optional(pinned) | Self::Required(pinned) = self {
            *pinned.approvers.write().unwrap_or_else(PoisonError::into_inner) = approvers;
        }
    }

    /// Checks the signature and the age of an approver's statement at `now`.
    pub fn check(
        &self,
        statement: &Statement<'_>,
        signature: Option<&ApprovalSignature>,
        now: EpochMs,
    ) -> Result<(), ApprovalError> {
        self.check_signature(statement, signature, now)?;
        self.check_age(statement, signature, now, 0)
    }

    /// Checks an approval that another party received, without its age: its signature, and what it says of the approver.
    ///
    /// # Errors
    /// [`ApprovalError`].
    pub fn check_approval(
        &self,
        subject: &ApprovalSubject<'_>,
        approval: &Approval,
        now: EpochMs,
    ) -> Result<(), ApprovalError> {
        self.check_signature(&subject.statement(approval), approval.signature.as_deref(), now)?;
        self.check_registered(subject.tenant, &approval.subject_id, approval.registered.as_deref())
    }

    /// The approvals of an operation that counted and no longer do at `now`: a key was revoked or has expired, a role was taken away,
    /// the registry says something else of the subject, or the approval became too old, of which the time for which the admission waits
    /// does not count. Their signatures are not verified again.
    pub fn lapsed(
        &self,
        subject: &ApprovalSubject<'_>,
        approvals: &[Approval],
        now: EpochMs,
        wait_ms: u64,
    ) -> Result<Vec<LapsedApproval>, ApprovalError> {
        let mut lapsed = Vec::new();
        for approval in approvals {
            let (statement, signature) = (subject.statement(approval), approval.signature.as_deref());
            let checked = match (self, signature) {
                (Self::Optional(pinned) | Self::Required(pinned), Some(signature)) => {
                    pinned.registry()?.check_signer(&statement, signature, now)
                }
                (Self::Off | Self::Optional(_) | Self::Required(_), _) => {
                    self.check_signature(&statement, signature, now)
                }
            };
            let registered = approval.registered.as_deref();
            let checked = checked
                .and_then(|()| self.check_registered(subject.tenant, &approval.subject_id, registered))
                .and_then(|()| self.check_age(&statement, signature, now, wait_ms));
            match checked {
                Ok(()) => {}
                Err(ApprovalError::NoRegistry) => return Err(ApprovalError::NoRegistry),
                // It counted by another clock, and counts here soon.
                Err(fault) if fault.passes() => {}
                Err(fault) => lapsed.push(LapsedApproval {
                    subject_id: approval.subject_id.clone(),
                    reason: fault.as_str().to_owned(),
                }),
            }
        }
        Ok(lapsed)
    }

    /// Checks the age of a signed statement at `now`, which may be higher by `wait_ms`: see
    /// [`TimeLimits::wait_ms`](crate::policy::TimeLimits::wait_ms).
    ///
    /// # Errors
    /// [`ApprovalError`]: `InFuture`, `TooOld`.
    pub fn check_age(
        &self,
        statement: &Statement<'_>,
        signature: Option<&ApprovalSignature>,
        now: EpochMs,
        wait_ms: u64,
    ) -> Result<(), ApprovalError> {
        match (self, signature) {
            (Self::Optional(pinned) | Self::Required(pinned), Some(_)) => {
                let age_max_ms = pinned.age_max_ms.saturating_add(wait_ms);
                let first = EpochMs(now.0.saturating_sub(age_max_ms));
                check_claimed_time(statement.claimed_at_ms(), first, now)
            }
            (Self::Off | Self::Optional(_) | Self::Required(_), _) => Ok(()),
        }
    }

    /// Checks the signature against the registry at `now`, without its age: an approval that was young enough when it
    /// was counted does not become invalid, but its approver may be revoked.
    pub fn check_signature(
        &self,
        statement: &Statement<'_>,
        signature: Option<&ApprovalSignature>,
        now: EpochMs,
    ) -> Result<(), ApprovalError> {
        match (self, signature) {
            (Self::Off, None) => Ok(()),
            (Self::Off, Some(_)) => Err(ApprovalError::SignaturesDisabled),
            (Self::Optional(pinned), None) => pinned.registry()?.check_roles(statement),
            (Self::Required(pinned), None) => {
                pinned.registry()?;
                Err(ApprovalError::NotSigned)
            }
            (Self::Optional(pinned) | Self::Required(pinned), Some(signature)) => {
                pinned.registry()?.verify(statement, signature, now)
            }
        }
    }
}

impl PinnedRegistry {
    /// Pins a registry. `age_max_ms` is the longest time between the approver's claimed time and the verification.
    #[must_use]
    pub fn new(approvers: Arc<Approvers>, age_max_ms: u64) -> Self {
        Self { approvers: Arc::new(RwLock::new(Some(approvers))), age_max_ms }
    }

    /// Without a registry, no approval is accepted until [`SigningRule::replace_registry`] provides one.
    #[must_use]
    pub fn without_registry(age_max_ms: u64) -> Self {
        Self { approvers: Arc::default(), age_max_ms }
    }

    /// The current registry. A verification gets it once, so that a replacement does not change it in between.
    fn registry(&self) -> Result<Arc<Approvers>, ApprovalError> {
        let approvers = self.approvers.read().unwrap_or_else(PoisonError::into_inner).clone();
        approvers.ok_or(ApprovalError::NoRegistry)
    }
}

/// Checks that an approver's clock gave a time from `first` to `last`; it may be ahead by [`CLOCK_SKEW_MS`].
///
/// # Errors
/// [`ApprovalError`]: `InFuture`, `TooOld`.
pub fn check_claimed_time(claimed_at_ms: i64, first: EpochMs, last: EpochMs) -> Result<(), ApprovalError> {
    let claimed = EpochMs(u64::try_from(claimed_at_ms).map_err(|_| ApprovalError::TooOld)?);
    if claimed > last.plus_ms(CLOCK_SKEW_MS) {
        return Err(ApprovalError::InFuture);
    }
    if claimed < first { Err(ApprovalError::TooOld) } else { Ok(()) }
}
