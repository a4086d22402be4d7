//! The reasons for which a caller is not authenticated.

/// The credentials do not authenticate a caller. The text never has anything of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    /// Credentials are missing or incomplete.
    #[error("credentials are required: {0}")]
    Required(&'static str),
    /// An identity header cannot be read; it is not treated as absent.
    #[error("header `{name}` {must}")]
    Unreadable {
        /// The header.
        name: &'static str,
        /// What it must be.
        must: &'static str,
    },
    /// The token is not valid.
    #[error("the token is not valid: {0}")]
    InvalidToken(#[from] TokenFault),
    /// The credentials cannot be checked now.
    #[error("callers cannot be authenticated: {0}")]
    Unavailable(&'static str),
}

/// The fault of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// More than one `authorization` header.
    #[error("the header `authorization` must be given once")]
    Repeated,
    /// Longer than the limit.
    #[error("it has more than 16384 bytes")]
    TooLarge,
    /// Not of the form of a token.
    #[error("it does not have the form of a token")]
    Malformed,
    /// An algorithm that is not accepted, or not the key's.
    #[error("`alg` must be that of the key, and one of RS256, PS256, ES256, ES384, EdDSA")]
    Algorithm,
    /// Not an access token.
    #[error("`typ` must be `JWT` or `at+jwt`")]
    Type,
    /// A critical extension, of which none is supported.
    #[error("`crit` names an extension that is not supported")]
    Critical,
    /// The issuer has no key with this `kid`.
    #[error("`kid` names none of the issuer's keys")]
    UnknownKey,
    /// The signature does not verify with that key.
    #[error("the signature does not verify")]
    Signature,
    /// No longer valid.
    #[error("it has expired")]
    Expired,
    /// Not yet valid.
    #[error("it is not valid yet")]
    NotYetValid,
    /// From another issuer.
    #[error("`iss` is another issuer")]
    Issuer,
    /// For another audience.
    #[error("`aud` is another audience")]
    Audience,
    /// A claim is missing or malformed.
    #[error("the claim for the caller's `{0}` is missing or malformed")]
    Claim(&'static str),
    /// Bound to a certificate that the client did not present (RFC 8705), or in a way that cannot be checked.
    #[error("it is bound to a key that the client did not prove to have")]
    Unproved,
    /// Inactive according to the identity provider.
    #[error("it is not active")]
    Inactive,
}

impl Unauthenticated {
    /// The label for counters, from a fixed list.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Required(_) => "credentials_required",
            Self::Unreadable { .. } => "unreadable_header",
            Self::InvalidToken(fault) => fault.reason(),
            Self::Unavailable(_) => "provider_unavailable",
        }
    }
}

impl TokenFault {
    const fn reason(self) -> &'static str {
        match self {
            Self::Repeated => "token_repeated",
            Self::TooLarge => "token_too_large",
            Self::Malformed => "token_malformed",
            Self::Algorithm => "token_algorithm",
            Self::Type => "token_type",
            Self::Critical => "token_critical",
            Self::UnknownKey => "token_unknown_key",
            Self::Signature => "token_signature",
            Self::Expired => "token_expired",
            Self::NotYetValid => "token_not_yet_valid",
            Self::Issuer => "token_issuer",
            Self::Audience => "token_audience",
            Self::Claim(_) => "token_claim",
            Self::Unproved => "token_unproved",
            Self::Inactive => "token_inactive",
        }
    }
}
