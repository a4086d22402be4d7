//! Who is calling: credentials to a [`Principal`], and what its scopes permit.
//!
//! Four modes (decisions.md 7), one question: [`Authenticator::authenticate`]. In every doubt the answer is no: what is
//! not proved is refused, and what can not be found out because the identity provider does not answer is refused as
//! well, under a name of its own.
//!
//! Deliberately absent: endpoints, and which scope each needs (they are in `gateway_api`); the clock, which is an
//! argument; logins and sessions, which are the identity provider's. Start at [`Authenticator`], then [`Claims`] for what
//! a token has to say, then [`jose`] for how it is proved.

mod addresses;
mod authenticator;
mod claims;
mod credentials;
pub mod headers;
mod introspection;
pub mod jose;
mod jwks;
pub mod limits;
mod peer;
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
pub use introspection::{Introspection, IntrospectionConfig};
pub use jwks::{Jwks, JwksConfig, KeySource};
pub use peer::Peer;
pub use principal::{BindingMismatch, Identity, Principal, TokenId};
pub use provider::{InvalidProvider, Provider, ProviderUrl};
pub use scope::Scope;
pub use secret::ClientSecret;
pub use unauthenticated::{TokenFault, Unauthenticated};

use gateway_domain::time::EpochMs;
use std::sync::Arc;

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> EpochMs + Send + Sync>;
