//! Opaque bearer tokens, which the identity provider validates: OAuth 2.0 Token Introspection (RFC 7662).
//!
//! "Active" is cached for half a minute and never beyond the token's expiry; no other answer is cached. For one token at
//! most one request is in flight, however many callers present it, and it completes even when all of them disconnect.

mod cache;
mod limiter;
mod request;

use crate::limits::{ACTIVE_FOR_MS, PROBE_EVERY_MS, PROVIDER_WITHIN, REQUESTS_KNOWN_MAX, REQUESTS_MAX};
use crate::provider::{ProviderFault, chain};
use crate::{ClaimRules, Claims, ClientSecret, Clock, Identity, Provider, TokenFault, Unauthenticated};
use cache::{Lookup, TokenCache, TokenHash};
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use http::HeaderValue;
use limiter::Limiter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio::time::timeout;
use zeroize::Zeroizing;

/// The introspection endpoint, and how its answers are read.
pub struct IntrospectionConfig {
    /// The introspection endpoint.
    pub provider: Provider,
    /// The client id of this gateway at the provider.
    pub client_id: String,
    /// The client secret that belongs to it.
    pub client_secret: ClientSecret,
    /// The rules for the claims in an answer.
    pub rules: ClaimRules,
    /// The clock.
    pub clock: Clock,
}

/// Authenticates callers by introspection.
pub struct Introspection(Arc<Shared>);

struct Shared {
    provider: Provider,
    authorization: HeaderValue,
    rules: ClaimRules,
    clock: Clock,
    cache: Mutex<TokenCache>,
    /// Limits requests for tokens that are not in the cache.
    new_tokens: Limiter,
    /// Limits requests for tokens that the provider's last answer called active.
    known_tokens: Limiter,
    health: Mutex<Health>,
    /// Held while a readiness probe sends a request.
    probe: tokio::sync::Mutex<()>,
}

/// The time of the last request's end, and whether it went without an answer.
#[derive(Clone, Copy, Default)]
struct Health {
    ended_at: Option<EpochMs>,
    is_unanswered: bool,
}

/// The outcome of a request: the claims of an active token.
type Outcome = Result<Arc<Claims>, Rejection>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rejection {
    Token(TokenFault),
    NoAnswer,
    Busy,
}

impl From<Rejection> for Unauthenticated {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Token(fault) => fault.into(),
            Rejection::NoAnswer => {
                Self::Unavailable("the identity provider does not say whether the token is active")
            }
            Rejection::Busy => {
                Self::Unavailable("too many other tokens are waiting for the identity provider")
            }
        }
    }
}

impl Introspection {
    /// Introspection with these settings.
    ///
    /// # Errors
    /// The fault of the client's credentials.
    pub fn new(config: IntrospectionConfig) -> Result<Self, &'static str> {
        let IntrospectionConfig { provider, client_id, client_secret, rules, clock } = config;
        let authorization = request::authorization(&client_id, &client_secret)?;
        Ok(Self(Arc::new(Shared {
            provider,
            authorization,
            rules,
            clock,
            cache: Mutex::default(),
            new_tokens: Limiter::new(REQUESTS_MAX),
            known_tokens: Limiter::new(REQUESTS_KNOWN_MAX),
            health: Mutex::default(),
            probe: tokio::sync::Mutex::default(),
        })))
    }

    /// The caller with this token and certificate.
    ///
    /// # Errors
    /// [`Unauthenticated`]: `InvalidToken`, or `Unavailable` when the provider does not answer.
    pub async fn identity(
        &self,
        token: &str,
        certificate: Option<Hex32>,
    ) -> Result<Identity, Unauthenticated> {
        let claims = self.0.outcome(token).await?;
        Ok(claims.identity((self.0.clock)(), certificate)?)
    }

    /// Whether the provider answers. Sends a request only when the last one went without an answer.
    ///
    /// # Errors
    /// The reason, for the readiness probe.
    pub async fn check(&self) -> Result<(), &'static str> {
        let _one_probe_at_a_time = self.0.probe.lock().await;
        let is_unanswered = match self.0.recent_health() {
            Some(is_unanswered) => is_unanswered,
            // No real token: any answer about it shows that the provider answers.
            None => matches!(self.0.send("probe", &self.0.known_tokens).await, Err(Rejection::NoAnswer)),
        };
        if is_unanswered { Err("the identity provider does not answer") } else { Ok(()) }
    }
}

impl Shared {
    /// Whether the last request went without an answer; `None` when it did and that is long ago.
    fn recent_health(&self) -> Option<bool> {
        let Health { ended_at, is_unanswered } = *lock(&self.health);
        let now = (self.clock)();
        let is_recent = now.0.checked_sub(ended_at?.0).is_some_and(|ms| ms < PROBE_EVERY_MS);
        (is_recent || !is_unanswered).then_some(is_unanswered)
    }

    /// The cached claims of the token, or the outcome of a request.
    async fn outcome(self: &Arc<Self>, token: &str) -> Outcome {
        let hash = cache::hash(token);
        let found = lock(&self.cache).find(hash, (self.clock)());
        let mut outcome = match found {
            Lookup::Active(claims) => return Ok(claims),
            Lookup::Pending(outcome) => outcome,
            Lookup::Missing { sender, was_active } => {
                let outcome = sender.subscribe();
                let request = InFlight { shared: Arc::clone(self), hash, sender, was_active };
                let token = Zeroizing::new(token.to_owned());
                tokio::spawn(async move { request.run(&token).await });
                outcome
            }
        };
        let outcome = outcome.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        outcome.ok().flatten().unwrap_or(Err(Rejection::NoAnswer))
    }

    /// Sends one request to the provider.
    async fn send(&self, token: &str, limiter: &Limiter) -> Outcome {
        // A request that was not sent does not change the provider's health.
        let _permit = limiter.acquire().await.ok_or(Rejection::Busy)?;
        let sent = request::send(&self.provider, &self.authorization, token);
        let answer = timeout(PROVIDER_WITHIN, sent).await.unwrap_or(Err(ProviderFault::Timeout));
        let now = (self.clock)();
        *lock(&self.health) = Health { ended_at: Some(now), is_unanswered: answer.is_err() };
        match answer {
            Err(fault) => {
                tracing::warn!(why = chain(&fault), "token introspection failed");
                Err(Rejection::NoAnswer)
            }
            Ok(None) => Err(Rejection::Token(TokenFault::Inactive)),
            Ok(Some(claims)) => Claims::read(&claims, &self.rules).map(Arc::new).map_err(Rejection::Token),
        }
    }
}

/// A request in flight, until it is dropped.
struct InFlight {
    shared: Arc<Shared>,
    hash: TokenHash,
    sender: watch::Sender<Option<Outcome>>,
    was_active: bool,
}

impl InFlight {
    async fn run(self, token: &str) {
        let sent_at = (self.shared.clock)();
        let shared = &self.shared;
        let limiter = if self.was_active { &shared.known_tokens } else { &shared.new_tokens };
        let outcome = shared.send(token, limiter).await;
        match &outcome {
            Ok(claims) => {
                // Counted from the start: the time that the answer took is not added.
                let until_ms =
                    sent_at.0.saturating_add(ACTIVE_FOR_MS).min(claims.expires_ms().unwrap_or(u64::MAX));
                lock(&shared.cache).remember(self.hash, Arc::clone(claims), EpochMs(until_ms), sent_at);
            }
            Err(Rejection::Token(_)) => lock(&shared.cache).forget(self.hash),
            Err(Rejection::NoAnswer | Rejection::Busy) => {}
        }
        self.sender.send_replace(Some(outcome));
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        lock(&self.shared.cache).finish(self.hash);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
