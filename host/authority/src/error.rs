//! Why a request is not decided, and why the record cannot be used.

use crate::decision::Refusal;
use gateway_domain::approval::{ApprovalError, LapsedApproval};
use gateway_domain::canonical::CanonicalError;
use gateway_domain::error_chain;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::SpendingTotals;
use gateway_domain::policy::document::DocumentError;
use gateway_domain::policy::paid::PaidError;
use gateway_policy::{BundleError, Disagreement, RepeatError, Superseded};
use gateway_sqlite::{OpenError, SizeFileError, WriteError};
use std::error::Error;
use std::path::PathBuf;

/// The code of a refusal that is [final](Unverified::is_final), or of an approval.
pub const DECISION_REFUSED: &str = "decision_refused";

/// Why a request is not decided.
#[derive(Debug, thiserror::Error)]
pub enum Unverified {
    /// The events are not the chained history of an operation.
    #[error("the events are not the history of an operation: {0}")]
    Events(&'static str),
    /// The decision would not be valid now, or for too long.
    #[error(
        "the decision would be valid from `{not_before_ms}` to `{not_after_ms}`, and the authority's clock says `{now_ms}`"
    )]
    Times {
        /// The first valid instant.
        not_before_ms: u64,
        /// The first instant that is no longer valid.
        not_after_ms: u64,
        /// The authority's time.
        now_ms: u64,
    },
    /// An approval does not count.
    #[error("approval of `{subject_id}`: `{}`: {fault}", fault.as_str())]
    Approval {
        /// The approver.
        subject_id: String,
        /// The reason.
        fault: ApprovalError,
    },
    /// The operation says something else of its submitter than the authority's registry.
    #[error("submitter `{subject_id}`: `{}`: {fault}", fault.as_str())]
    Submitter {
        /// The submitter.
        subject_id: String,
        /// The reason.
        fault: ApprovalError,
    },
    /// Too few people approved.
    #[error("the operation has {n_approved} of {required} required approvals")]
    TooFew {
        /// The number of different people who approved.
        n_approved: u32,
        /// The required number.
        required: u32,
    },
    /// The authority does not have the policy bundle. The caller may offer it.
    #[error("the policy bundle `{bundle_hash}` is not known here")]
    BundleUnknown {
        /// The bundle.
        bundle_hash: Hex32,
    },
    /// The policy bundle is not trusted, or the trust roots cannot be read.
    #[error("the policy bundle is not trusted: {}", error_chain(.0))]
    Bundle(#[from] BundleError),
    /// The policy bundle is older than one that admitted operations.
    #[error(transparent)]
    Superseded(#[from] Superseded),
    /// The recorded evaluation cannot be repeated.
    #[error(transparent)]
    NotRepeated(#[from] RepeatError),
    /// The policy denies the operation, or a fact that it read does not agree with what the authority knows.
    #[error(transparent)]
    Policy(#[from] Disagreement),
    /// An earlier payment that a fact counts is not proved.
    #[error(transparent)]
    Paid(#[from] PaidError),
    /// A document that the policy read is not trusted, or older than one before.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The policy denies the payment with the amounts that the authority admitted, which are higher than the facts.
    #[error("the authority admitted more than the policy read: {why}")]
    Spent {
        /// What it admitted for this payment's account and recipient.
        totals: SpendingTotals,
        /// The denial.
        why: Disagreement,
    },
    /// The authority decided on another payment under this operation's id.
    #[error("the authority decided on another payment of this operation")]
    OtherPayment,
    /// The decision could not be recorded. Nothing was signed.
    #[error(transparent)]
    NotRecorded(#[from] RecordFailure),
    /// The request is inconsistent.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A value has no canonical form.
    #[error("the operation has no canonical form")]
    Canonical(#[from] CanonicalError),
}

impl Unverified {
    /// The approval that does not count, if that is the reason: another one can take its place.
    #[must_use]
    pub fn lapsed(&self) -> Option<LapsedApproval> {
        match self {
            Self::Approval { fault, .. } if fault.passes() => None,
            Self::Approval { subject_id, fault } => {
                Some(LapsedApproval { subject_id: subject_id.clone(), reason: fault.as_str().to_owned() })
            }
            Self::Policy(Disagreement::Outlived { subject_id }) => {
                let reason = ApprovalError::TooOld.as_str().to_owned();
                Some(LapsedApproval { subject_id: subject_id.clone(), reason })
            }
            _ => None,
        }
    }

    /// Whether the same operation can never be decided. Otherwise it may be later: with another bundle, clock, or version of either side.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        if let Self::Submitter { fault, .. } = self {
            return !fault.passes();
        }
        matches!(self, Self::Events(_) | Self::TooFew { .. } | Self::OtherPayment | Self::Refused(_))
    }
}

/// Why a decision could not be recorded. The message has no path; the source is for the log.
#[derive(Debug, thiserror::Error)]
#[error("the authority's record cannot be written now")]
pub struct RecordFailure(#[source] Box<dyn Error + Send + Sync>);

impl From<WriteError> for RecordFailure {
    fn from(error: WriteError) -> Self {
        Self(error.into())
    }
}

impl From<SizeFileError> for RecordFailure {
    fn from(error: SizeFileError) -> Self {
        Self(error.into())
    }
}

/// Why a record cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file with the number of decisions cannot be used.
    #[error("the file with the size of the record cannot be used")]
    SizeFile(#[from] SizeFileError),
    /// The database is older than it was: a copy was restored, or it was removed.
    #[error(
        "the record `{}` has {n_decisions} decisions, and had {known} by `{}`: it was removed, or is an older copy; \
         put the newest one back, or read `host/docs/operations.md`",
        database.display(),
        size_file.display()
    )]
    Older {
        /// The database.
        database: PathBuf,
        /// The file with the number of decisions.
        size_file: PathBuf,
        /// The number in the database.
        n_decisions: u64,
        /// The number in the file.
        known: u64,
    },
    /// A row or the schema is not as the authority wrote it.
    #[error("the record is damaged: {0}")]
    Damaged(String),
    /// A value has no canonical form.
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
    /// SQLite failed.
    #[error("the record cannot be read")]
    Read(#[from] sqlx::Error),
    /// The thread that opened the database ended. Does not occur.
    #[error("the record was not opened")]
    NotOpened,
}

/// Why a job of the record ends early.
pub(crate) enum Stop {
    /// The authority refuses. Nothing was written.
    Refused(Unverified),
    /// SQLite failed.
    Failed(sqlx::Error),
}

impl From<Unverified> for Stop {
    fn from(refused: Unverified) -> Self {
        Self::Refused(refused)
    }
}

impl From<DocumentError> for Stop {
    fn from(error: DocumentError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<Superseded> for Stop {
    fn from(superseded: Superseded) -> Self {
        Self::Refused(superseded.into())
    }
}

/// A row without a canonical form, which does not occur, rolls back what was written before it.
impl From<CanonicalError> for Stop {
    fn from(error: CanonicalError) -> Self {
        Self::Failed(sqlx::Error::Encode(error.into()))
    }
}

impl From<sqlx::Error> for Stop {
    fn from(error: sqlx::Error) -> Self {
        Self::Failed(error)
    }
}
