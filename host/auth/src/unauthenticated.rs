//! Why there is no caller.

/// No caller can be made of these credentials. Nothing of them is ever in the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    /// There are none, or not enough of them.
    #[error("credentials are required: {0}")]
    Required(&'static str),
    /// An identity header that can not be read: it is no identity, and never taken as absent.
    #[error("header `{name}` {must}")]
    Unreadable {
        /// The header.
        name: &'static str,
        /// What it must be.
        must: &'static str,
    },
    /// There is a token, and it does not hold.
    #[error("the token does not hold: {0}")]
    InvalidToken(#[from] TokenFault),
    /// Whether it holds can not be found out now.
    #[error("callers can not be authenticated: {0}")]
    Unavailable(&'static str),
}

/// What is wrong with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// Two headers, of which only one could be meant.
    #[error("the header `authorization` must be given once")]
    Repeated,
    /// Longer than anything that is looked at.
    #[error("it has more than 16384 bytes")]
    TooLarge,
    /// Not of the form.
    #[error("it does not have the form of a token")]
    Malformed,
    /// An algorithm that is not taken, or not the one of the key.
    #[error("`alg` must be that of the key, and one of RS256, PS256, ES256, ES384, EdDSA")]
    Algorithm,
    /// Another kind of token.
    #[error("`typ` must be `JWT` or `at+jwt`")]
    Type,
    /// It asks for what nobody here understands.
    #[error("`crit` names an extension that is not supported")]
    Critical,
    /// No such key.
    #[error("`kid` names none of the issuer's keys")]
    UnknownKey,
    /// Not signed by that key.
    #[error("the signature does not verify")]
    Signature,
    /// No longer valid.
    #[error("it has expired")]
    Expired,
    /// Not yet valid.
    #[error("it is not valid yet")]
    NotYetValid,
    /// Of somebody else.
    #[error("`iss` is another issuer")]
    Issuer,
    /// For somebody else.
    #[error("`aud` is another audience")]
    Audience,
    /// A claim is missing, or not what it has to be.
    #[error("the claim for the caller's `{0}` is missing or not of its form")]
    Claim(&'static str),
    /// Bound to a certificate that the client did not show (RFC 8705), or in a way that can not be checked.
    #[error("it is bound to a key that the client did not prove to have")]
    Unproved,
    /// The identity provider says so.
    #[error("it is not active")]
    Inactive,
}

impl Unauthenticated {
    /// A word for counters, of a fixed list.
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
