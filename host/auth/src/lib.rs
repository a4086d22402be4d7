//! Who is calling: credentials to a [`Principal`], and what its scopes permit.
//!
//! The development bypass is here; trusted headers, JWKS and introspection join it as further authenticators
//! (decisions.md 7). Deliberately absent: endpoints, and which scope each needs; those are in `gateway_api`.

mod bypass;
mod peer;
mod principal;
mod scope;

pub use bypass::bypass;
pub use peer::Peer;
pub use principal::{BindingMismatch, Identity, Principal};
pub use scope::Scope;

/// The identity headers of decisions.md 7, lower case.
pub mod headers {
    /// The calling system.
    pub const CLIENT_ID: &str = "x-client-id";
    /// The person or service account.
    pub const SUBJECT_ID: &str = "x-subject-id";
    /// Roles, separated by commas or spaces.
    pub const ROLES: &str = "x-roles";
    /// Scopes, separated by commas or spaces.
    pub const SCOPES: &str = "x-scopes";
    /// The tenant.
    pub const TENANT: &str = "x-tenant";
    /// All of them.
    pub const ALL: [&str; 5] = [CLIENT_ID, SUBJECT_ID, ROLES, SCOPES, TENANT];
}

/// No caller can be made of these credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    /// There are none, or not enough of them.
    #[error("credentials are required: {0}")]
    Required(&'static str),
}
