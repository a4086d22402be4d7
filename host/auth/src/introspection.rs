//! Bearer tokens that the identity provider is asked about: OAuth 2.0 Token Introspection (RFC 7662).
//!
//! "Active" is believed for half a minute and never beyond the token's own end; everything else is asked again. For one
//! token there is one question at a time, however many requests carry it, and it is finished even when all of them hang
//! up.

mod answers;
mod question;
mod turns;

use crate::limits::{ACTIVE_FOR_MS, PROBE_EVERY_MS, PROVIDER_WITHIN, QUESTIONS_AGAIN_MAX, QUESTIONS_MAX};
use crate::provider::{ProviderFault, chain};
use crate::{ClaimRules, Claims, ClientSecret, Clock, Identity, Provider, TokenFault, Unauthenticated};
use answers::{Answers, Found, TokenHash};
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use http::HeaderValue;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio::time::timeout;
use turns::Turns;
use zeroize::Zeroizing;

/// What tokens are asked about with.
pub struct IntrospectionConfig {
    /// The introspection endpoint.
    pub provider: Provider,
    /// Who this gateway is to the provider.
    pub client_id: String,
    /// The proof of it.
    pub client_secret: ClientSecret,
    /// What the answers must say.
    pub rules: ClaimRules,
    /// The time.
    pub clock: Clock,
}

/// Asks about tokens.
pub struct Introspection(Arc<Shared>);

struct Shared {
    provider: Provider,
    authorization: HeaderValue,
    rules: ClaimRules,
    clock: Clock,
    answers: Mutex<Answers>,
    /// For tokens of which nothing is known.
    first_turns: Turns,
    /// For those that were active when they were asked about last.
    further_turns: Turns,
    health: Mutex<Health>,
    /// Held by whoever asks for the readiness probe's sake.
    probe: tokio::sync::Mutex<()>,
}

/// How the last question went, and when.
#[derive(Clone, Copy, Default)]
struct Health {
    answered_at: Option<EpochMs>,
    is_silent: bool,
}

/// What became of a question: the claims of an active token.
type Verdict = Result<Arc<Claims>, Refused>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Token(TokenFault),
    Silent,
    Busy,
}

impl From<Refused> for Unauthenticated {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Token(fault) => fault.into(),
            Refused::Silent => {
                Self::Unavailable("the identity provider does not say whether the token is active")
            }
            Refused::Busy => Self::Unavailable("too many other tokens are being asked about"),
        }
    }
}

impl Introspection {
    /// Asks with these credentials.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(config: IntrospectionConfig) -> Result<Self, &'static str> {
        let IntrospectionConfig { provider, client_id, client_secret, rules, clock } = config;
        let authorization = question::authorization(&client_id, &client_secret)?;
        Ok(Self(Arc::new(Shared {
            provider,
            authorization,
            rules,
            clock,
            answers: Mutex::default(),
            first_turns: Turns::new(QUESTIONS_MAX),
            further_turns: Turns::new(QUESTIONS_AGAIN_MAX),
            health: Mutex::default(),
            probe: tokio::sync::Mutex::default(),
        })))
    }

    /// The caller with this token and certificate.
    ///
    /// # Errors
    /// [`Unauthenticated`]: `InvalidToken`, or `Unavailable` when nobody says whether it holds.
    pub async fn identity(
        &self,
        token: &str,
        certificate: Option<Hex32>,
    ) -> Result<Identity, Unauthenticated> {
        let claims = self.0.verdict(token).await?;
        Ok(claims.identity((self.0.clock)(), certificate)?)
    }

    /// Whether the provider answers. It is asked only when the last question went without an answer.
    ///
    /// # Errors
    /// Why not.
    pub async fn check(&self) -> Result<(), &'static str> {
        let _only_one_asks = self.0.probe.lock().await;
        let is_silent = match self.0.known_health() {
            Some(is_silent) => is_silent,
            // About no token: whatever the provider says of it, it has answered.
            None => matches!(self.0.ask("probe", &self.0.further_turns).await, Err(Refused::Silent)),
        };
        if is_silent { Err("the identity provider does not answer") } else { Ok(()) }
    }
}

impl Shared {
    /// Whether the last question went without an answer, unless that was long ago.
    fn known_health(&self) -> Option<bool> {
        let Health { answered_at, is_silent } = *lock(&self.health);
        let now = (self.clock)();
        let is_recent = now.0.checked_sub(answered_at?.0).is_some_and(|ms| ms < PROBE_EVERY_MS);
        (is_recent || !is_silent).then_some(is_silent)
    }

    /// What is remembered of the token, or what the provider says now.
    async fn verdict(self: &Arc<Self>, token: &str) -> Verdict {
        let hash = answers::hash(token);
        let found = lock(&self.answers).find(hash, (self.clock)());
        let mut verdict = match found {
            Found::Active(claims) => return Ok(claims),
            Found::Asked(verdict) => verdict,
            Found::Nothing { told, was_active } => {
                let verdict = told.subscribe();
                let question = Question { shared: Arc::clone(self), hash, told, was_active };
                let token = Zeroizing::new(token.to_owned());
                tokio::spawn(async move { question.settle(&token).await });
                verdict
            }
        };
        let told = verdict.wait_for(Option::is_some).await.map(|told| told.clone());
        told.ok().flatten().unwrap_or(Err(Refused::Silent))
    }

    /// One question to the provider.
    async fn ask(&self, token: &str, turns: &Turns) -> Verdict {
        // That nobody asked says nothing of the provider.
        let _turn = turns.take().await.ok_or(Refused::Busy)?;
        let asked = question::ask(&self.provider, &self.authorization, token);
        let answer = timeout(PROVIDER_WITHIN, asked).await.unwrap_or(Err(ProviderFault::Late));
        let now = (self.clock)();
        *lock(&self.health) = Health { answered_at: Some(now), is_silent: answer.is_err() };
        match answer {
            Err(fault) => {
                tracing::warn!(why = chain(&fault), "a token could not be asked about");
                Err(Refused::Silent)
            }
            Ok(None) => Err(Refused::Token(TokenFault::Inactive)),
            Ok(Some(claims)) => Claims::read(&claims, &self.rules).map(Arc::new).map_err(Refused::Token),
        }
    }
}

/// A question that is under way, until it is dropped.
struct Question {
    shared: Arc<Shared>,
    hash: TokenHash,
    told: watch::Sender<Option<Verdict>>,
    was_active: bool,
}

impl Question {
    async fn settle(self, token: &str) {
        let asked_at = (self.shared.clock)();
        let shared = &self.shared;
        let turns = if self.was_active { &shared.further_turns } else { &shared.first_turns };
        let verdict = shared.ask(token, turns).await;
        match &verdict {
            Ok(claims) => {
                // From when it was asked: how long the answer was under way is not to be believed on top.
                let until_ms =
                    asked_at.0.saturating_add(ACTIVE_FOR_MS).min(claims.expires_ms().unwrap_or(u64::MAX));
                lock(&shared.answers).remember(self.hash, Arc::clone(claims), EpochMs(until_ms), asked_at);
            }
            Err(Refused::Token(_)) => lock(&shared.answers).forget(self.hash),
            Err(Refused::Silent | Refused::Busy) => {}
        }
        self.told.send_replace(Some(verdict));
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        lock(&self.shared.answers).settled(self.hash);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
