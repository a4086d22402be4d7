//! Authentication and scopes: from a request's credentials to a [`Principal`].
//!
//! [`Authenticator::authenticate`] has four modes (`host/docs/authentication.md`). It rejects invalid credentials, and, as
//! [`Unauthenticated::Unavailable`], those that it cannot check because the identity provider does not answer.
//!
//! Deliberately absent: endpoints and their scopes, which are in `gateway_api`; the clock, which is an argument; logins and
//! sessions, which belong to the identity provider. Start at [`Authenticator`], then [`Claims`] for the content of tokens,
//! then [`jose`] for their signatures.

mod addresses;
mod authenticator;
mod claims;
mod credentials;
pub mod headers;
mod introspection;
pub mod jose;
mod jwks;
pub mod limits;
mod principal;
mod provider;
mod scope;
mod secret;
#[cfg(feature = "testing")]
pub mod testing;
mod unauthenticated;

pub use addresses::{Addresses, InvalidAddresses};
pub use authenticator::Authenticator;
pub use claims::{ClaimName, ClaimRules, Claims};
pub use credentials::Peer;
pub use introspection::{Introspection, IntrospectionConfig};
pub use jwks::{Jwks, JwksConfig, KeySource};
pub use principal::{BindingMismatch, Identity, Principal, TokenId};
pub use provider::{InvalidProvider, Provider, ProviderUrl};
pub use scope::Scope;
pub use secret::ClientSecret;
pub use unauthenticated::{TokenFault, Unauthenticated};

use gateway_domain::time::EpochMs;
use std::sync::Arc;

/// The current time.
pub type Clock = Arc<dyn Fn() -> EpochMs + Send + Sync>;
