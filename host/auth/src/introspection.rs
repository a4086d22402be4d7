//! Opaque bearer tokens, which the identity provider validates: OAuth 2.0 Token Introspection (RFC 7662).
//!
//! The claims of an accepted token are cached for [`ACTIVE_FOR_MS`], and not beyond the token's expiry. Nothing else is cached.
//! For each token at most one request is in flight, however many callers present it; it completes even if they disconnect.

mod cache;
mod limiter;
mod request;

use crate::limits::{ACTIVE_FOR_MS, PROBE_EVERY_MS, PROVIDER_TIMEOUT, REQUESTS_KNOWN_MAX, REQUESTS_MAX};
use crate::provider::ProviderFault;
use crate::{ClaimRules, Claims, ClientSecret, Clock, Identity, Provider, TokenFault, Unauthenticated};
use cache::{Lookup, Outcome, Rejection, TokenCache, TokenHash};
use gateway_domain::error_chain;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use http::HeaderValue;
use limiter::Limiter;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::timeout;
use zeroize::Zeroizing;

/// The introspection endpoint, and how its responses are read.
pub struct IntrospectionConfig {
    /// The introspection endpoint.
    pub provider: Provider,
    /// The client id of this gateway at the provider.
    pub client_id: String,
    /// The client secret of this gateway at the provider.
    pub client_secret: ClientSecret,
    /// The rules for the claims in a response.
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
    /// Limits concurrent requests for tokens that were never seen, or not active when last introspected.
    new_tokens: Limiter,
    /// Limits concurrent requests for tokens that were active when last introspected, and of the readiness probe.
    known_tokens: Limiter,
    health: Mutex<Health>,
    /// Held while a readiness probe sends a request.
    probe: tokio::sync::Mutex<()>,
}

/// The result of the last request to the provider.
#[derive(Clone, Copy, Default)]
struct Health {
    /// `None` before the first request.
    ended_at: Option<EpochMs>,
    /// Whether there was no valid response.
    failed: bool,
}

impl From<Rejection> for Unauthenticated {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Token(fault) => fault.into(),
            Rejection::NoValidResponse => {
                Self::Unavailable("the identity provider did not give a valid response")
            }
            Rejection::Busy => Self::Unavailable("too many tokens are being introspected"),
        }
    }
}

impl Introspection {
    /// Introspection with these settings.
    ///
    /// # Errors
    /// A message if the client's credentials cannot be encoded as an `Authorization` header.
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

    /// The caller with this token. `certificate` is the SHA-256 thumbprint of its client certificate, if it has one.
    ///
    /// # Errors
    /// [`Unauthenticated`]: `InvalidToken`, or `Unavailable` if the provider gives no valid response or too many requests to it
    /// are in flight.
    pub async fn identity(
        &self,
        token: &str,
        certificate: Option<Hex32>,
    ) -> Result<Identity, Unauthenticated> {
        let claims = self.0.outcome(token).await?;
        Ok(claims.identity((self.0.clock)(), certificate)?)
    }

    /// Fails if the last completed request to the provider failed. Sends a probe first if no request has completed yet, or if
    /// that failure is older than [`PROBE_EVERY_MS`]. A probe that is not sent because of the limit counts as a success.
    pub async fn check(&self) -> Result<(), &'static str> {
        let _one_probe_at_a_time = self.0.probe.lock().await;
        let failed = match self.0.known_failure() {
            Some(failed) => failed,
            // Not a token: any valid response, also that it is inactive, shows that the provider works.
            None => {
                matches!(self.0.send("probe", &self.0.known_tokens).await, Err(Rejection::NoValidResponse))
            }
        };
        if failed { Err("the identity provider did not give a valid response") } else { Ok(()) }
    }
}

impl Shared {
    /// Whether the last request failed; `None` before the first request, and when a failure is no longer recent.
    fn known_failure(&self) -> Option<bool> {
        let Health { ended_at, failed } = *self.health.lock();
        let now = (self.clock)();
        let is_recent = now.0.checked_sub(ended_at?.0).is_some_and(|ms| ms < PROBE_EVERY_MS);
        (is_recent || !failed).then_some(failed)
    }

    /// The token's cached claims, or the outcome of a request that is in flight or sent now.
    async fn outcome(self: &Arc<Self>, token: &str) -> Outcome {
        let hash = cache::hash(token);
        let found = self.cache.lock().find(hash, (self.clock)());
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
        outcome.ok().flatten().unwrap_or(Err(Rejection::NoValidResponse))
    }

    /// Sends one request to the provider.
    async fn send(&self, token: &str, limiter: &Limiter) -> Outcome {
        // If no permit is free, nothing is sent and the provider's health stays as it is.
        let _permit = limiter.acquire().await.ok_or(Rejection::Busy)?;
        let sent = request::send(&self.provider, &self.authorization, token);
        let response = timeout(PROVIDER_TIMEOUT, sent).await.unwrap_or(Err(ProviderFault::Timeout));
        let now = (self.clock)();
        *self.health.lock() = Health { ended_at: Some(now), failed: response.is_err() };
        match response {
            Err(fault) => {
                tracing::warn!(why = error_chain(&fault), "token introspection failed");
                Err(Rejection::NoValidResponse)
            }
            Ok(None) => Err(Rejection::Token(TokenFault::Inactive)),
            Ok(Some(claims)) => Claims::read(&claims, &self.rules).map(Arc::new).map_err(Rejection::Token),
        }
    }
}

/// A request in flight. Dropping it removes the pending request from the cache.
struct InFlight {
    shared: Arc<Shared>,
    hash: TokenHash,
    sender: watch::Sender<Option<Outcome>>,
    was_active: bool,
}

impl InFlight {
    async fn run(self, token: &str) {
        let started_at = (self.shared.clock)();
        let shared = &self.shared;
        let limiter = if self.was_active { &shared.known_tokens } else { &shared.new_tokens };
        let outcome = shared.send(token, limiter).await;
        match &outcome {
            Ok(claims) => {
                // Counted from before the request: the provider may have read the token's state at any time since.
                let until_ms =
                    started_at.0.saturating_add(ACTIVE_FOR_MS).min(claims.expires_ms().unwrap_or(u64::MAX));
                shared.cache.lock().remember(self.hash, Arc::clone(claims), EpochMs(until_ms), started_at);
            }
            Err(Rejection::Token(_)) => shared.cache.lock().forget(self.hash),
            Err(Rejection::NoValidResponse | Rejection::Busy) => {}
        }
        self.sender.send_replace(Some(outcome));
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.shared.cache.lock().finish(self.hash);
    }
}
