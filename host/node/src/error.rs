//! Errors of a node.

use gateway_domain::canonical::CanonicalError;
use gateway_domain::ids::Hex32;
use gateway_domain::operation::EffectStep;
use gateway_domain::roster::ParticipantIndex;
use gateway_seal::at_rest::AtRestError;
use gateway_seal::relay::Complaint;
use gateway_sqlite::{OpenError, WriteError};
use gateway_threshold::ThresholdError;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// Why a node does not make a step. The messages contain no secret and no path.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The node refuses the call. Repeating it does not help.
    #[error(transparent)]
    Rejected(#[from] NodeRejection),
    /// The attempt cannot be completed: its secrets are gone, or its ceremony failed. Only a fresh attempt can succeed.
    #[error("{reason}")]
    Lost {
        /// The reason, for people.
        reason: Cow<'static, str>,
    },
    /// The node does not have the policy bundle of the decision. The same call may succeed after
    /// [`Node::offer_bundle`](crate::Node::offer_bundle).
    #[error("the node does not have the policy bundle `{bundle_hash}`")]
    BundleUnknown {
        /// The bundle.
        bundle_hash: Hex32,
    },
    /// The node cannot serve now; the same call may succeed later.
    #[error("{detail}")]
    Unavailable {
        /// What is missing or failed, for people.
        detail: Cow<'static, str>,
        /// The cause, if another crate reported one.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
}

/// A refusal that repeating the call does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRejection {
    /// The kind of refusal.
    pub code: Code,
    /// The reason, for people.
    pub detail: String,
    /// Participants that misbehaved, if that is the reason. The node has proof; the caller, only with the messages or `complaint`.
    pub culprits: Vec<ParticipantIndex>,
    /// A wrong private message to this node with the signature of its sender, if it is the proof.
    pub complaint: Option<Box<Complaint>>,
}

/// Declares the codes, each with its stable text in events and evidence.
macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident = $text:literal,)+) => {
        /// The kind of a rejection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code {
            $($(#[$doc])* $code,)+
        }

        impl Code {
            /// The code of this text.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$code),)+
                    _ => None,
                }
            }

            /// The stable code in events and evidence.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $text,)+
                }
            }
        }
    };
}

codes! {
    /// The decision is not signed by a pinned authority, or does not match the intent, the approvals, the key or this node.
    AdmissionRefused = "admission_refused",
    /// The signature of an approval is missing or invalid, according to the node's own registry of approvers.
    ApprovalRefused = "approval_refused",
    /// The node's own run of the policy does not confirm the decision, or the policy read facts that do not agree with what the
    /// node knows, or the node does not trust the bundle.
    PolicyRefused = "policy_refused",
    /// Operations were admitted under a bundle with a higher sequence. The caller may offer the bundle again with a signed
    /// activation record, and repeat the call.
    BundleSuperseded = "bundle_superseded",
    /// The decision is not valid yet, or no longer.
    AdmissionExpired = "admission_expired",
    /// The operation was admitted by another decision.
    AdmissionConflict = "admission_conflict",
    /// The key is in another epoch than the admitted one, or a key to be created exists already.
    EpochConflict = "epoch_conflict",
    /// The step is not the next one of this operation on this node.
    StepOutOfOrder = "step_out_of_order",
    /// The effect id was used for another call.
    EffectConflict = "effect_conflict",
    /// A later attempt has begun on this node.
    AttemptSuperseded = "attempt_superseded",
    /// The node completed an earlier attempt, and the call has no receipt that makes sure that this attempt cannot be completed.
    AttemptNotDiscarded = "attempt_not_discarded",
    /// The nonces of the attempt signed another package.
    SessionConsumed = "session_consumed",
    /// The signing package, or the start of a ceremony, does not match what was admitted.
    PackageRefused = "package_refused",
    /// The result to be published is not that of the operation.
    ResultRefused = "result_refused",
    /// Participants deviated from the protocol.
    CeremonyMisbehaviour = "ceremony_misbehaviour",
    /// The relay delivered a message that it changed, or that is for another node or ceremony.
    RelayMisbehaviour = "relay_misbehaviour",
    /// The operation was discarded on this node.
    OperationDiscarded = "operation_discarded",
    /// A receipt is not valid: a node's for the step that it made, or one in a call.
    ReceiptRefused = "receipt_refused",
    /// The operation was approved or decided before the node was restored from a backup and readmitted.
    DecidedBeforeReadmission = "decided_before_readmission",
}

impl Code {
    /// Whether a fresh attempt at the same ceremony may still succeed.
    #[must_use]
    pub const fn ends_only_the_attempt(self) -> bool {
        match self {
            Self::AttemptSuperseded | Self::AttemptNotDiscarded | Self::SessionConsumed => true,
            Self::AdmissionRefused
            | Self::ApprovalRefused
            | Self::PolicyRefused
            | Self::BundleSuperseded
            | Self::AdmissionExpired
            | Self::AdmissionConflict
            | Self::EpochConflict
            | Self::StepOutOfOrder
            | Self::EffectConflict
            | Self::PackageRefused
            | Self::ResultRefused
            | Self::CeremonyMisbehaviour
            | Self::RelayMisbehaviour
            | Self::OperationDiscarded
            | Self::ReceiptRefused
            | Self::DecidedBeforeReadmission => false,
        }
    }
}

impl NodeRejection {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), culprits: Vec::new(), complaint: None }
    }
}

impl fmt::Display for NodeRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.detail)
    }
}

impl Error for NodeRejection {}

impl NodeError {
    pub(crate) const fn lost(reason: &'static str) -> Self {
        Self::Lost { reason: Cow::Borrowed(reason) }
    }

    pub(crate) const fn unavailable(detail: &'static str) -> Self {
        Self::Unavailable { detail: Cow::Borrowed(detail), source: None }
    }

    pub(crate) fn caused_by(detail: &'static str, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Unavailable { detail: Cow::Borrowed(detail), source: Some(Box::new(source)) }
    }

    /// Whether the node's store, or a secret in it, is sealed under another key-encryption key than the configured one.
    #[must_use]
    pub fn is_wrong_kek(&self) -> bool {
        let Self::Unavailable { source: Some(source), .. } = self else { return false };
        matches!(source.downcast_ref(), Some(AtRestError::WrongKek { .. }))
    }

    /// Whether other users than the owner can read or write the node's files.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        let Self::Unavailable { source: Some(source), .. } = self else { return false };
        matches!(source.downcast_ref(), Some(OpenError::Exposed { .. } | OpenError::ExposedFolder { .. }))
    }

    /// The node has stopped.
    pub(crate) const STOPPED: Self = Self::unavailable(
        "the node has stopped: its database is older than what it signed, and an operator must readmit it",
    );

    /// The node has no share of the key that it could use.
    pub(crate) const NO_SHARE: Self = Self::unavailable("the node holds no share of the key");

    /// The stored data cannot be decoded.
    pub(crate) fn damaged(source: impl Error + Send + Sync + 'static) -> Self {
        Self::caused_by("the node's store is damaged", source)
    }

    /// The error of a failed protocol: a rejection if culprits are named, or if what was admitted can never be made; otherwise a lost
    /// attempt.
    pub(crate) fn ceremony(error: &ThresholdError, complaint: Option<Complaint>) -> Self {
        if matches!(error, ThresholdError::NotAdmitted) {
            return NodeRejection::new(Code::PackageRefused, error.to_string()).into();
        }
        let culprits: Vec<_> = error.culprits().into_iter().map(ParticipantIndex).collect();
        if culprits.is_empty() {
            return Self::lost("the ceremony failed and no participant is to blame");
        }
        let (detail, complaint) = (error.to_string(), complaint.map(Box::new));
        NodeRejection { code: Code::CeremonyMisbehaviour, detail, culprits, complaint }.into()
    }
}

/// Converts errors of other crates to [`NodeError::Unavailable`] with these details.
macro_rules! unavailable {
    ($($error:ty => $detail:literal),+ $(,)?) => {$(
        impl From<$error> for NodeError {
            fn from(error: $error) -> Self {
                Self::caused_by($detail, error)
            }
        }
    )+};
}

unavailable! {
    sqlx::Error => "the node's store failed",
    WriteError => "the node's store failed",
    OpenError => "the node's store cannot be opened",
    PeerConflict => "the node's identity is not the one pinned for it",
    CanonicalError => "a value has no canonical form",
}

/// Another identity is already pinned for the participant.
#[derive(Debug, thiserror::Error)]
#[error("participant {index} is pinned with another identity")]
pub struct PeerConflict {
    /// The participant's index.
    pub index: u16,
}

/// Why a transaction or a read stopped: with an answer for the caller, or because the store failed.
#[derive(Debug)]
pub(crate) enum Stop {
    Refused(NodeError),
    Failed(sqlx::Error),
}

impl From<sqlx::Error> for Stop {
    fn from(error: sqlx::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<NodeError> for Stop {
    fn from(refused: NodeError) -> Self {
        Self::Refused(refused)
    }
}

impl From<NodeRejection> for Stop {
    fn from(rejection: NodeRejection) -> Self {
        Self::Refused(rejection.into())
    }
}

impl From<CanonicalError> for Stop {
    fn from(error: CanonicalError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<Stop> for NodeError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Refused(refused) => refused,
            Stop::Failed(error) => error.into(),
        }
    }
}

// The refusals that several files make.

pub(crate) fn admission_refused(detail: impl Into<String>) -> NodeRejection {
    NodeRejection::new(Code::AdmissionRefused, detail)
}

pub(crate) fn policy_refused(detail: impl Into<String>) -> NodeRejection {
    NodeRejection::new(Code::PolicyRefused, detail)
}

pub(crate) fn package_refused(detail: impl Into<String>) -> NodeRejection {
    NodeRejection::new(Code::PackageRefused, detail)
}

pub(crate) fn result_refused(detail: &'static str) -> NodeRejection {
    NodeRejection::new(Code::ResultRefused, detail)
}

pub(crate) fn epoch_conflict(detail: &'static str) -> NodeRejection {
    NodeRejection::new(Code::EpochConflict, detail)
}

pub(crate) fn out_of_order(detail: impl Into<String>) -> NodeRejection {
    NodeRejection::new(Code::StepOutOfOrder, detail)
}

pub(crate) fn other_transition() -> NodeRejection {
    out_of_order("the step follows another transition than this node's last one")
}

/// The refusal of a step that cannot follow `last_step`.
pub(crate) fn cannot_follow(last_step: EffectStep) -> NodeRejection {
    out_of_order(format!("the last step on this node is `{}`", last_step.as_str()))
}

pub(crate) fn other_decision() -> NodeRejection {
    NodeRejection::new(Code::AdmissionConflict, "the operation was admitted by another decision")
}

pub(crate) fn expired() -> NodeRejection {
    NodeRejection::new(Code::AdmissionExpired, "the admission decision is not valid now")
}

pub(crate) fn discarded() -> NodeRejection {
    NodeRejection::new(Code::OperationDiscarded, "the operation was discarded on this node")
}

pub(crate) fn attempt_superseded() -> NodeRejection {
    NodeRejection::new(Code::AttemptSuperseded, "a later attempt has begun")
}

pub(crate) fn session_consumed() -> NodeRejection {
    NodeRejection::new(Code::SessionConsumed, "the nonces of this attempt signed another package")
}

/// The refusal of an operation that the node may have signed before a rollback.
pub(crate) fn decided_before() -> NodeRejection {
    let detail = "the operation was approved or decided before the node was restored and readmitted: it may have signed it";
    NodeRejection::new(Code::DecidedBeforeReadmission, detail)
}
