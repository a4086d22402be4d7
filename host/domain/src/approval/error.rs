//! The reasons why an approval is rejected before the policy is evaluated.

/// The reason why an approval is rejected before the policy is evaluated: its signature, or its time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalError {
    /// The approval is signed, and this deployment does not verify signatures.
    #[error("this deployment does not accept signed approvals")]
    SignaturesDisabled,
    /// The approval is not signed, and signatures are required.
    #[error("the approval must be signed by the approver")]
    NotSigned,
    /// The registry cannot be read or is invalid: no approval counts until it is corrected.
    #[error("the registry of approvers cannot be read: no approval counts until it is right")]
    NoRegistry,
    /// The registry has no such approver for this tenant.
    #[error("the registry has no such approver in this tenant")]
    UnknownApprover,
    /// The approver does not have this key or credential.
    #[error("the approver has no such key")]
    UnknownKey,
    /// The key is not valid yet.
    #[error("the key is not valid yet")]
    KeyNotYetValid,
    /// The key is no longer valid.
    #[error("the key has expired")]
    KeyExpired,
    /// The key was revoked.
    #[error("the key was revoked")]
    KeyRevoked,
    /// The approver claims a role that it does not hold.
    #[error("the approver does not hold the role `{0}`")]
    RoleNotHeld(String),
    /// The approver acts in no role, and the registry gives it some.
    #[error("the approval states no role, and the registry gives the approver roles")]
    NoRole,
    /// The registry says something else of the subject than what is recorded.
    #[error("the registry says something else of this subject than what is recorded")]
    OtherRegistered,
    /// The approver's clock gave a time too long ago, or before the submission.
    #[error("the approval is too old")]
    TooOld,
    /// The approver's clock gave a time in the future.
    #[error("the approval claims a time in the future")]
    InFuture,
    /// The gateway's time of the approval is before the one that the approver signed.
    #[error("the gateway received the approval before its approver signed it")]
    Backdated,
    /// A signed part is malformed.
    #[error("`{0}` is not well formed")]
    Malformed(&'static str),
    /// The client data are not those of an assertion.
    #[error("the type of the client data is not `webauthn.get`")]
    WrongType,
    /// The signature is for another statement.
    #[error("the challenge is not the digest of this approval's statement")]
    WrongChallenge,
    /// The approval was made at an origin that the credential does not list.
    #[error("the credential does not list the origin `{0}`")]
    WrongOrigin(String),
    /// The approval was made in a cross-origin frame.
    #[error("the approval was made in a frame of another origin")]
    CrossOrigin,
    /// The assertion is for another relying party.
    #[error("the assertion is for another relying party")]
    WrongRp,
    /// The authenticator did not detect a user.
    #[error("the authenticator did not detect a user")]
    UserNotPresent,
    /// The authenticator did not verify the user's identity.
    #[error("the authenticator did not verify the user")]
    UserNotVerified,
    /// The signature is not by this key over this statement.
    #[error("the signature is not the approver's over this statement")]
    BadSignature,
}

impl ApprovalError {
    /// Whether it passes with time: the registry is read again, or the clock reaches the approval.
    #[must_use]
    pub const fn passes(&self) -> bool {
        matches!(self, Self::NoRegistry | Self::InFuture | Self::KeyNotYetValid)
    }

    /// The stable code.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::SignaturesDisabled => "not_taken",
            Self::NotSigned => "not_signed",
            Self::NoRegistry => "no_registry",
            Self::UnknownApprover => "unknown_approver",
            Self::UnknownKey => "unknown_key",
            Self::KeyNotYetValid => "key_not_yet_valid",
            Self::KeyExpired => "key_expired",
            Self::KeyRevoked => "key_revoked",
            Self::RoleNotHeld(_) => "role_not_held",
            Self::NoRole => "no_role",
            Self::OtherRegistered => "other_registered",
            Self::TooOld => "too_old",
            Self::InFuture => "in_future",
            Self::Backdated => "backdated",
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
