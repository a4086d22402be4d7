//! What a gateway or a node makes of an approval's signature.

use super::limits::CLOCK_SKEW_MS;
use super::{Approval, ApprovalFault, ApprovalSubject, Approvers};
use crate::time::EpochMs;
use std::sync::{Arc, PoisonError, RwLock};

/// Whether approvals are signed by their approvers.
#[derive(Clone, Debug, Default)]
pub enum SigningRule {
    /// They are not, and nobody verifies any.
    #[default]
    Off,
    /// Those that are, are verified.
    Optional(Pinned),
    /// An approval without a signature is none.
    Required(Pinned),
}

/// Whose signatures are believed, and how long. Clones have one registry: what is put in force is in force with all of them.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// None while the deployment's registry cannot be read: the change may be a revocation, so no approval counts.
    approvers: Arc<RwLock<Option<Arc<Approvers>>>>,
    age_max_ms: u64,
}

impl SigningRule {
    /// Whether an approval without a signature is none.
    #[must_use]
    pub const fn is_required(&self) -> bool {
        matches!(self, Self::Required(_))
    }

    /// Whether approvals can be verified, where they are: not while the registry cannot be read.
    #[must_use]
    pub fn can_verify(&self) -> bool {
        match self {
            Self::Off => true,
            Self::Optional(pinned) | Self::Required(pinned) => pinned.in_force().is_ok(),
        }
    }

    /// Puts another registry in force, where signatures are verified: from now on, and with every clone. With none, no
    /// approval counts, signed or not.
    pub fn put_in_force(&self, approvers: Option<Arc<Approvers>>) {
        if let Self::Optional(pinned) | Self::Required(pinned) = self {
            *pinned.approvers.write().unwrap_or_else(PoisonError::into_inner) = approvers;
        }
    }

    /// Whether this approval of this subject may count now.
    ///
    /// # Errors
    /// [`ApprovalFault`].
    pub fn check(
        &self,
        subject: &ApprovalSubject<'_>,
        approval: &Approval,
        now: EpochMs,
    ) -> Result<(), ApprovalFault> {
        match (self, approval.signature.as_deref()) {
            (Self::Off, None) => Ok(()),
            (Self::Off, Some(_)) => Err(ApprovalFault::NotTaken),
            (Self::Optional(pinned), None) => pinned.in_force().map(|_| ()),
            (Self::Required(pinned), None) => {
                pinned.in_force()?;
                Err(ApprovalFault::NotSigned)
            }
            (Self::Optional(pinned) | Self::Required(pinned), Some(signature)) => {
                let statement = subject.statement(approval);
                pinned.in_force()?.verify(&statement, signature, now)?;
                pinned.check_age(statement.approved_at_ms, now)
            }
        }
    }
}

impl Pinned {
    /// `age_max_ms`: the longest time from what an approver's clock said to now, as approvals are not kept in store.
    #[must_use]
    pub fn new(approvers: Arc<Approvers>, age_max_ms: u64) -> Self {
        Self { approvers: Arc::new(RwLock::new(Some(approvers))), age_max_ms }
    }

    /// As [`Self::new`], until a registry is put in force that could not be read yet.
    #[must_use]
    pub fn without_registry(age_max_ms: u64) -> Self {
        Self { approvers: Arc::default(), age_max_ms }
    }

    /// One registry for all of a verification.
    fn in_force(&self) -> Result<Arc<Approvers>, ApprovalFault> {
        let approvers = self.approvers.read().unwrap_or_else(PoisonError::into_inner).clone();
        approvers.ok_or(ApprovalFault::NoRegistry)
    }

    fn check_age(&self, claimed_at_ms: i64, now: EpochMs) -> Result<(), ApprovalFault> {
        claimed_between(claimed_at_ms, EpochMs(now.0.saturating_sub(self.age_max_ms)), now)
    }
}

/// Whether an approver's clock said something between two instants of ours; it may be ahead by [`CLOCK_SKEW_MS`].
///
/// # Errors
/// [`ApprovalFault`]: `InFuture`, `TooOld`.
pub fn claimed_between(claimed_at_ms: i64, first: EpochMs, last: EpochMs) -> Result<(), ApprovalFault> {
    let claimed = EpochMs(u64::try_from(claimed_at_ms).map_err(|_| ApprovalFault::TooOld)?);
    if claimed > last.plus_ms(CLOCK_SKEW_MS) {
        return Err(ApprovalFault::InFuture);
    }
    if claimed < first { Err(ApprovalFault::TooOld) } else { Ok(()) }
}
