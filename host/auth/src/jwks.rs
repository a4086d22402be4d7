//! Bearer tokens that prove themselves: signed by an issuer whose keys are known (decisions.md 7).

mod cache;
mod source;

pub use source::KeySource;

use crate::jose::Compact;
use crate::{ClaimRules, Claims, Clock, Identity, TokenFault, Unauthenticated};
use cache::{KeyCache, Missing};
use gateway_domain::ids::Hex32;
use std::time::Duration;

/// What signed tokens are judged with.
pub struct JwksConfig {
    /// Where the issuer's keys are.
    pub source: KeySource,
    /// How long keys hold after they were last fetched, while they can not be fetched again.
    pub max_age: Duration,
    /// What tokens must say.
    pub rules: ClaimRules,
    /// The time.
    pub clock: Clock,
}

/// Judges signed tokens.
pub struct Jwks {
    keys: KeyCache,
    rules: ClaimRules,
    clock: Clock,
}

impl Jwks {
    /// A judge. Its keys are fetched when they are first needed, or at [`Self::warm_up`].
    #[must_use]
    pub fn new(config: JwksConfig) -> Self {
        let JwksConfig { source, max_age, rules, clock } = config;
        Self { keys: KeyCache::new(source, max_age, clock.clone()), rules, clock }
    }

    /// The caller with this token and certificate.
    ///
    /// # Errors
    /// [`Unauthenticated`]: `InvalidToken`, or `Unavailable` when its key is not known and can not be asked for.
    pub async fn identity(
        &self,
        token: &str,
        certificate: Option<Hex32>,
    ) -> Result<Identity, Unauthenticated> {
        let token = Compact::parse(token)?;
        // A key is known by its name, and only so: trying all of them would let the token choose.
        let key_id = token.key_id.as_deref().ok_or(TokenFault::UnknownKey)?;
        let key = self.keys.key(key_id).await.map_err(|missing| match missing {
            Missing::Unknown => TokenFault::UnknownKey.into(),
            Missing::Unavailable => Unauthenticated::Unavailable("the issuer's keys can not be had"),
        })?;
        let claims = token.claims(&key)?;
        // A token that never expires can not be taken back.
        if claims.get("exp").is_none_or(serde_json::Value::is_null) {
            return Err(TokenFault::Claim("last instant").into());
        }
        Ok(Claims::read(&claims, &self.rules)?.identity((self.clock)(), certificate)?)
    }

    /// Begins to fetch the keys.
    pub fn warm_up(&self) {
        self.keys.warm_up();
    }

    /// Fetches the keys now and replaces those in use.
    ///
    /// # Errors
    /// Why there are none now, for the log.
    pub async fn reload(&self) -> Result<(), String> {
        self.keys.reload().await
    }

    /// Whether there are keys to judge with.
    ///
    /// # Errors
    /// Why not.
    pub async fn check(&self) -> Result<(), &'static str> {
        self.keys.check().await
    }
}
