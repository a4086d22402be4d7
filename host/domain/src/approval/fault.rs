//! Why an approval's signature is not believed.

/// Why an approval's signature is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalFault {
    /// There is a signature, and this deployment verifies none.
    #[error("this deployment takes no signed approvals")]
    NotTaken,
    /// There is none, and this deployment asks for one.
    #[error("the approval must be signed by the approver")]
    NotSigned,
    /// The registry cannot be read, or is none: no approval counts until it is right.
    #[error("the registry of approvers cannot be read: no approval counts until it is right")]
    NoRegistry,
    /// Nobody of this name may approve for this tenant.
    #[error("the registry has no such approver in this tenant")]
    UnknownApprover,
    /// Not one of the approver's keys or credentials.
    #[error("the key is none of the approver's")]
    UnknownKey,
    /// The key is not to be used yet.
    #[error("the key is not valid yet")]
    KeyNotYetValid,
    /// The key is not to be used any longer.
    #[error("the key has expired")]
    KeyExpired,
    /// The key was taken back.
    #[error("the key was revoked")]
    KeyRevoked,
    /// The approver claims a role that it does not have.
    #[error("the approver does not hold the role `{0}`")]
    RoleNotHeld(String),
    /// The approver's clock says a time that is too long ago.
    #[error("the approval is too old")]
    TooOld,
    /// The approver's clock says a time that is still to come.
    #[error("the approval claims a time that is still to come")]
    InFuture,
    /// What is signed has no readable form.
    #[error("`{0}` is not well formed")]
    Malformed(&'static str),
    /// The credential was used for something else than an assertion.
    #[error("the client data are not of an assertion")]
    WrongType,
    /// Another statement was approved.
    #[error("the challenge is not the digest of this approval's statement")]
    WrongChallenge,
    /// Approved at a place that is not the deployment's.
    #[error("the origin `{0}` is none of the credential's")]
    WrongOrigin(String),
    /// Approved in a frame of another site.
    #[error("the approval was made in a frame of another origin")]
    CrossOrigin,
    /// The credential's answer is for another relying party.
    #[error("the authenticator answered another relying party")]
    WrongRp,
    /// Nobody touched the authenticator.
    #[error("the authenticator saw nobody present")]
    UserNotPresent,
    /// The authenticator did not ask who it is.
    #[error("the authenticator did not verify its user")]
    UserNotVerified,
    /// The signature is not of this key over this statement.
    #[error("the signature is not the approver's over this statement")]
    BadSignature,
}

impl ApprovalFault {
    /// The stable word.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NotTaken => "not_taken",
            Self::NotSigned => "not_signed",
            Self::NoRegistry => "no_registry",
            Self::UnknownApprover => "unknown_approver",
            Self::UnknownKey => "unknown_key",
            Self::KeyNotYetValid => "key_not_yet_valid",
            Self::KeyExpired => "key_expired",
            Self::KeyRevoked => "key_revoked",
            Self::RoleNotHeld(_) => "role_not_held",
            Self::TooOld => "too_old",
            Self::InFuture => "in_future",
            Self::Malformed(_) => "malformed",
            Self::WrongType => "wrong_type",
            Self::WrongChallenge => "wrong_challenge",
            Self::WrongOrigin(_) => "wrong_origin",
            Self::CrossOrigin => "cross_origin",
            Self::WrongRp => "wrong_rp",
            Self::UserNotPresent => "user_not_present",
            Self::UserNotVerified => "user_not_verified",
            Self::BadSignature => "bad_signature",
        }
    }
}
