//! Errors of use cases and ports.

use crate::rate_limit::Quota;
use gateway_domain::approval::LapsedApproval;
use gateway_domain::canonical::CanonicalError;
use gateway_domain::ids::{Hex32, KeyId, KeyRef, OperationId};
use gateway_domain::key::fit::KeyError;
use gateway_domain::operation::Refusal;
use gateway_domain::policy::{DecisionId, SpendingTotals, Statement, join};
use std::fmt;

/// A dependency did not answer, or too few nodes did. The request can be retried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{dependency} is unavailable: {detail}", dependency = .dependency.as_str())]
pub struct Unavailable {
    /// The dependency.
    pub dependency: Dependency,
    /// For operators and callers: no address, path or secret. Only what readiness reports may name a path, so that an
    /// operator knows which disk is full.
    pub detail: String,
}

gateway_domain::words! {
    /// A dependency of the gateway.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[expect(missing_docs, reason = "the names say it")]
    pub enum Dependency {
        Store = "store",
        Policy = "policy",
        Authority = "authority",
        Runtime = "runtime",
    }
}

impl Unavailable {
    /// Wraps a dependency and the reason.
    #[must_use]
    pub fn new(dependency: Dependency, detail: impl Into<String>) -> Self {
        Self { dependency, detail: detail.into() }
    }
}

/// Why there is no signed decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// Too few authorities answered, or agree.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The policy denies the payment with the amounts that so many authorities admitted that the others are too few to sign. The
    /// gateway may know fewer: of a decision that it could not store, or that failed later.
    #[error("the authorities admitted more than the policy read")]
    Spent(SpendingTotals),
    /// So many authorities do not count these approvals that the others are too few to sign: a key was revoked, for example. Others can
    /// take their place.
    #[error("the authorities do not count approvals")]
    Lapsed(Vec<LapsedApproval>),
    /// Another replica has changed the operation meanwhile.
    #[error("the operation was changed by another replica")]
    Outdated,
    /// So many authorities refuse for good that the others are too few to sign.
    #[error("the authorities refuse: {0}")]
    Refused(String),
}

/// The subject of a stored record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// An operation.
    Operation(OperationId),
    /// A custody key.
    Key(KeyId),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operation(id) => write!(f, "operation `{id}`"),
            Self::Key(id) => write!(f, "key `{id}`"),
        }
    }
}

/// A stored record that differs from the fold of its events: something other than the gateway changed it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record of {subject} is damaged: {detail}")]
pub struct Damage {
    /// The operation or key. The gateway does not use it until its record is repaired.
    pub subject: Subject,
    /// For operators: the table, the row and what is wrong.
    pub detail: String,
}

/// Why a record could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The store did not answer.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The stored record cannot be trusted.
    #[error(transparent)]
    Damaged(#[from] Damage),
}

/// Why a use case failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EngineError {
    /// The operation is unknown, of the other family, or of another tenant. The error does not say which.
    #[error("operation is unknown")]
    OperationNotFound,
    /// The key is unknown, or of another tenant. The error does not say which.
    #[error("key `{0}` is unknown")]
    KeyNotFound(String),
    /// Keys of several tenants have this name, none of them of the default tenant, and the caller sees all of them.
    #[error("several tenants have a key `{0}`")]
    KeyAmbiguous(String),
    /// No decision of this name is recorded, or it is of another tenant.
    #[error("decision `{0}` is not recorded; old ones are dropped as the deployment says")]
    DecisionNotFound(DecisionId),
    /// A key of this name exists and was created by another request.
    #[error("key `{0}` already exists")]
    KeyExists(String),
    /// The key has no child key at the requested path.
    #[error("{0}")]
    NoChild(String),
    /// The operation's state forbids it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The policy denied the submission, the approval or the admission.
    #[error("policy denies {}: {denied}", what(.creating))]
    PolicyRejected {
        /// The key whose creation was denied, if the gateway submitted that creation for a payment.
        creating: Option<KeyRef>,
        /// Why.
        denied: Box<Denied>,
        /// The client's quota, because a refusal takes a token; `None` while the limit is off.
        quota: Option<Quota>,
    },
    /// The client exceeds its rate limit.
    #[error("the rate limit of this client allows {} {of} at once, and they are used up", .quota.limit)]
    RateLimited {
        /// `submissions` or `previews`.
        of: &'static str,
        /// The client's quota.
        quota: Quota,
    },
    /// A member of the request is not allowed, by the key or by the deployment.
    #[error("{message}")]
    Invalid {
        /// JSON pointer to the member.
        pointer: &'static str,
        /// What is allowed.
        message: String,
    },
    /// The log has no such event: it was restored from an older copy, or the event is of another gateway.
    #[error("the log has no event `{0}`")]
    NotInLog(String),
    /// Other replicas kept changing the operation while this request was retried.
    #[error("operation was changed by another request at the same time")]
    Conflict,
    /// A dependency did not answer.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A stored record is damaged, and the gateway does not use it.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// A bug of the gateway.
    #[error("internal error: {0}")]
    Internal(String),
}

/// A denial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The reasons that deny.
    pub reasons: Vec<Denial>,
    /// The bundle that decided.
    pub bundle_hash: Hex32,
    /// The record of the decision.
    pub decision_id: Option<DecisionId>,
}

/// A reason to deny, with what the bundle's manifest says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The code and its operands.
    pub statement: Statement,
    /// What the code means; empty if the manifest is no longer at hand, or the code is the gateway's.
    pub text: String,
    /// What its reader can do; may be empty.
    pub remedy: String,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&join(self.reasons.iter().map(|reason| &reason.statement)))
    }
}

fn what(creating: &Option<KeyRef>) -> String {
    creating.as_ref().map_or("the operation".to_owned(), |key_ref| {
        format!(
            "the creation of key `{key_ref}`, which development makes when a payment needs it (permit `key_create` in the policy, or name an \
             existing key in `key_ref`)"
        )
    })
}

impl EngineError {
    pub(crate) const fn submissions_limited(quota: Quota) -> Self {
        Self::RateLimited { of: "submissions", quota }
    }

    pub(crate) const fn previews_limited(quota: Quota) -> Self {
        Self::RateLimited { of: "previews", quota }
    }
}

impl ReadError {
    /// For what only needs to know that it cannot go on.
    #[must_use]
    pub fn into_unavailable(self) -> Unavailable {
        match self {
            Self::Unavailable(why) => why,
            Self::Damaged(damage) => Unavailable::new(Dependency::Store, damage.to_string()),
        }
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

impl From<KeyError> for EngineError {
    fn from(misfit: KeyError) -> Self {
        match misfit {
            KeyError::Exists(key_ref) => Self::KeyExists(key_ref.0),
            KeyError::Unknown(key_ref) => Self::KeyNotFound(key_ref.0),
            KeyError::Invalid { pointer, message } => Self::Invalid { pointer, message },
            KeyError::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

impl From<Denied> for EngineError {
    fn from(denied: Denied) -> Self {
        Self::PolicyRejected { creating: None, denied: Box::new(denied), quota: None }
    }
}

impl From<CanonicalError> for EngineError {
    fn from(error: CanonicalError) -> Self {
        Self::Internal(error.to_string())
    }
}
