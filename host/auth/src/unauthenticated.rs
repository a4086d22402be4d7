//! The reasons for which a caller is not authenticated.

/// The credentials do not authenticate a caller. Messages contain no part of the credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    /// Credentials are missing or incomplete.
    #[error("credentials are required: {0}")]
    Required(&'static str),
    /// An identity header is invalid, or given twice; it is not treated as absent.
    #[error("header `{name}` {must}")]
    Unreadable {
        /// The header.
        name: &'static str,
        /// The violated rule; starts with "must".
        must: &'static str,
    },
    /// The token is not valid.
    #[error("the token is not valid: {0}")]
    InvalidToken(#[from] TokenFault),
    /// The credentials cannot be checked now.
    #[error("callers cannot be authenticated: {0}")]
    Unavailable(&'static str),
}

/// Why a token is invalid. Each message reads after "the token is not valid: ", and alone in `WWW-Authenticate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// More than one `authorization` header.
    #[error("the header `authorization` must be given once")]
    Repeated,
    /// Longer than the limit.
    #[error("the token has more than 16384 bytes")]
    TooLarge,
    /// Not in the form of a bearer token, or of a compact JWS with JSON objects.
    #[error("the token is malformed")]
    Malformed,
    /// An algorithm that is not accepted, or not the key's.
    #[error("`alg` must be that of the key, and one of RS256, PS256, ES256, ES384, EdDSA, Ed25519")]
    Algorithm,
    /// Not an access token.
    #[error("`typ` must be `JWT` or `at+jwt`")]
    Type,
    /// The header has `crit`: no critical extension is supported.
    #[error("`crit` is not supported")]
    Critical,
    /// `kid` is missing, or the issuer has no such key.
    #[error("`kid` is missing, or the issuer has no such key")]
    UnknownKey,
    /// The signature does not verify with that key.
    #[error("the signature does not verify")]
    Signature,
    /// `exp` is in the past.
    #[error("the token has expired")]
    Expired,
    /// `nbf` is in the future.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// `iss` is missing or another issuer.
    #[error("`iss` is not the expected issuer")]
    Issuer,
    /// `aud` is missing or another audience.
    #[error("`aud` does not name this gateway")]
    Audience,
    /// A claim is missing or malformed.
    #[error("claim `{0}` is missing or malformed")]
    Claim(&'static str),
    /// A list has more entries than a caller may have.
    #[error("claim `{0}` must have at most 256 entries")]
    TooMany(&'static str),
    /// A claim that policies may read is no text that can be recorded.
    #[error("a claim of `token_fact_claims` has more than 1024 bytes, or a U+0000")]
    FactClaim,
    /// Bound to a certificate that the client did not present (RFC 8705), or in a way that cannot be checked.
    #[error("the client did not prove possession of the key that the token is bound to")]
    Unproved,
    /// Not an active access token, according to the identity provider.
    #[error("the token is not active")]
    Inactive,
}

impl Unauthenticated {
    /// The value of the metrics' label `reason`, one of a fixed set.
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
            Self::Claim(_) | Self::TooMany(_) | Self::FactClaim => "token_claim",
            Self::Unproved => "token_unproved",
            Self::Inactive => "token_inactive",
        }
    }
}
