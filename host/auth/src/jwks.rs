//! Bearer tokens signed by an issuer whose public keys are known (JSON Web Key Set).

mod cache;
mod source;

pub use source::KeySource;

use crate::jose::Compact;
use crate::{ClaimRules, Claims, Clock, Identity, TokenFault, Unauthenticated};
use cache::{KeyCache, MissingKey};
use gateway_domain::ids::Hex32;
use std::time::Duration;

/// The source of the keys, and the rules for the claims.
pub struct JwksConfig {
    /// The source of the issuer's keys.
    pub source: KeySource,
    /// How long keys are used after their last fetch, while the source is unavailable.
    pub max_age: Duration,
    /// The rules for claims.
    pub rules: ClaimRules,
    /// The clock.
    pub clock: Clock,
}

/// Authenticates callers by signed tokens.
pub struct Jwks {
    pub(crate) keys: KeyCache,
    rules: ClaimRules,
    clock: Clock,
}

impl Jwks {
    /// Starts without keys. They are fetched when the first token needs one, or by `warm_up`.
    #[must_use]
    pub fn new(config: JwksConfig) -> Self {
        let JwksConfig { source, max_age, rules, clock } = config;
        Self { keys: KeyCache::new(source, max_age, clock.clone()), rules, clock }
    }

    /// The caller with this token and certificate.
    ///
    /// # Errors
    /// [`Unauthenticated`]: `InvalidToken`, or `Unavailable` when its key is unknown and keys cannot be fetched.
    pub async fn identity(
        &self,
        token: &str,
        certificate: Option<Hex32>,
    ) -> Result<Identity, Unauthenticated> {
        let token = Compact::parse(token)?;
        // Keys are found by `kid` only. If every key were tried, a token could choose its key.
        let key_id = token.key_id.as_deref().ok_or(TokenFault::UnknownKey)?;
        let key = self.keys.key(key_id).await.map_err(|missing| match missing {
            MissingKey::Unknown => TokenFault::UnknownKey.into(),
            MissingKey::Unavailable => Unauthenticated::Unavailable("the issuer's keys cannot be fetched"),
        })?;
        let claims = token.verified_claims(&key)?;
        // A token that never expires could not be revoked.
        if claims.get("exp").is_none_or(serde_json::Value::is_null) {
            return Err(TokenFault::Claim("exp").into());
        }
        Ok(Claims::read(&claims, &self.rules)?.identity((self.clock)(), certificate)?)
    }
}
