//! Why a use case did not do what was asked.

use crate::ports::{Damage, ReadError};
use crate::rate::Quota;
use gateway_domain::canonical::CanonicalError;
use gateway_domain::operation::Refusal;
use gateway_domain::policy;

/// Something the gateway stands on did not answer. Nothing was done that would not be done again alike.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{dependency} is unavailable: {detail}", dependency = .dependency.as_str())]
pub struct Unavailable {
    /// What did not answer.
    pub dependency: Dependency,
    /// For operators and callers: no address, path or secret. What readiness alone asks for may name a path, since whoever
    /// has to make room there needs it.
    pub detail: String,
}

/// What the gateway stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the port of its name")]
pub enum Dependency {
    Store,
    Policy,
    Authority,
    Runtime,
}

impl Dependency {
    /// For messages and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Policy => "policy",
            Self::Authority => "authority",
            Self::Runtime => "runtime",
        }
    }
}

impl Unavailable {
    /// A dependency that did not answer, and what is known of why.
    #[must_use]
    pub fn new(dependency: Dependency, detail: impl Into<String>) -> Self {
        Self { dependency, detail: detail.into() }
    }
}

/// A bundle that failed has not judged: nothing may be decided on its `DENY`.
pub(crate) fn judged(outcome: &policy::Outcome) -> Result<(), Unavailable> {
    match &outcome.fault {
        None => Ok(()),
        Some(fault) => Err(Unavailable::new(Dependency::Policy, format!("the bundle failed: {fault}"))),
    }
}

/// Why a use case did not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EngineError {
    /// Unknown, of the other family, or another tenant's: never said which.
    #[error("operation is unknown")]
    OperationNotFound,
    /// Unknown, or another tenant's.
    #[error("key `{0}` is unknown")]
    KeyNotFound(String),
    /// Keys of several tenants have this name, and the caller sees all of them.
    #[error("several tenants have a key `{0}`")]
    KeyAmbiguous(String),
    /// A key of this name exists and was created otherwise.
    #[error("key `{0}` exists")]
    KeyExists(String),
    /// The operation's state forbids it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The policy denied the submission.
    #[error("policy denies the operation: {}", .reasons.join("; "))]
    PolicyRejected {
        /// Its reasons.
        reasons: Vec<String>,
        /// What the client may still submit: a refusal is on record, and charged; none while the limit is off.
        budget: Option<Quota>,
    },
    /// The client submits, or asks for previews, faster than it may.
    #[error("this client may make {} {of} at once, and did", .budget.limit)]
    RateLimited {
        /// `submissions` or `previews`.
        of: &'static str,
        /// What is left.
        budget: Quota,
    },
    /// The request is impossible for this key.
    #[error("{message}")]
    Invalid {
        /// JSON pointer to the member at fault.
        pointer: &'static str,
        /// What is allowed.
        message: String,
    },
    /// The operation moved under this request more often than it was retried.
    #[error("operation was changed by another request at the same time")]
    Conflict,
    /// A dependency did not answer.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A stored record is not what its events make it: nothing is done with it.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// We are wrong.
    #[error("internal error: {0}")]
    Internal(String),
}

impl EngineError {
    pub(crate) const fn submissions_limited(budget: Quota) -> Self {
        Self::RateLimited { of: "submissions", budget }
    }

    pub(crate) const fn previews_limited(budget: Quota) -> Self {
        Self::RateLimited { of: "previews", budget }
    }
}

impl From<ReadError> for EngineError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Unavailable(why) => Self::Unavailable(why),
            ReadError::Damaged(damage) => Self::Damaged(damage),
        }
    }
}

impl From<CanonicalError> for EngineError {
    fn from(error: CanonicalError) -> Self {
        Self::Internal(error.to_string())
    }
}
