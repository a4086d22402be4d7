//! What a gateway or a node makes of an approval's signature.

use super::limits::CLOCK_SKEW_MS;
use super::{Approval, ApprovalFault, Approvers, Matter};
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
    approvers: Arc<RwLock<Arc<Approvers>>>,
    age_max_ms: u64,
}

impl SigningRule {
    /// Whether an approval without a signature is none.
    #[must_use]
    pub const fn is_required(&self) -> bool {
        matches!(self, Self::Required(_))
    }

    /// Puts another registry in force, where signatures are verified: from now on, and with every clone.
    pub fn put_in_force(&self, approvers: Arc<Approvers>) {
        if let Self::Optional(pinned) | Self::Required(pinned) = self {
            *pinned.approvers.write().unwrap_or_else(PoisonError::into_inner) = approvers;
        }
    }

    /// Whether this approval of this matter may count now.
    ///
    /// # Errors
    /// [`ApprovalFault`].
    pub fn check(&self, matter: &Matter<'_>, approval: &Approval, now: EpochMs) -> Result<(), ApprovalFault> {
        match (self, approval.signature.as_deref()) {
            (Self::Off | Self::Optional(_), None) => Ok(()),
            (Self::Off, Some(_)) => Err(ApprovalFault::NotTaken),
            (Self::Required(_), None) => Err(ApprovalFault::NotSigned),
            (Self::Optional(pinned) | Self::Required(pinned), Some(signature)) => {
                let statement = matter.statement(approval);
                pinned.in_force().verify(&statement, signature, now)?;
                pinned.check_age(statement.approved_at_ms, now)
            }
        }
    }
}

impl Pinned {
    /// `age_max_ms`: the longest time from what an approver's clock said to now, as approvals are not kept in store.
    #[must_use]
    pub fn new(approvers: Arc<Approvers>, age_max_ms: u64) -> Self {
        Self { approvers: Arc::new(RwLock::new(approvers)), age_max_ms }
    }

    /// One registry for all of a verification.
    fn in_force(&self) -> Arc<Approvers> {
        Arc::clone(&self.approvers.read().unwrap_or_else(PoisonError::into_inner))
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
