//! The state of the application: engine, authenticator, options.

use crate::origin::AllowedOrigins;
use crate::wire::readiness::ReadinessView;
use gateway_auth::Authenticator;
use gateway_domain::intent::SIGNATURE_PROFILES;
use gateway_engine::Engine;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The treatment of body members that are not in the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFields {
    /// Ignore them; name them in a `Warning` header and in evidence.
    Warn,
    /// Answer 400.
    Reject,
}

/// Limits and modes of the HTTP layer.
#[derive(Clone, Debug)]
pub struct Options {
    /// Largest request body, bytes.
    pub body_bytes_max: usize,
    /// Largest node-recovery body, bytes.
    pub recovery_body_bytes_max: usize,
    /// Largest page of an evidence or audit export, bytes.
    pub audit_bytes_max: usize,
    /// Deadline for receiving a body.
    pub body_within: Duration,
    /// Deadline for a whole request.
    pub request_within: Duration,
    /// Whether readiness and metrics are served on a separate address only.
    pub separate_probes: bool,
    /// Whether the console is served.
    pub console: bool,
    /// Whether Swagger UI is served.
    pub api_docs: bool,
    /// Origins whose pages may send requests, besides the gateway's own.
    pub allowed_origins: AllowedOrigins,
    /// The treatment of unknown members of bodies.
    pub unknown_fields: UnknownFields,
    /// Aliases of signature profiles.
    pub signature_profiles: ProfileAliases,
    /// The names of the safeguards that this production deployment has disabled.
    pub exceptions: Vec<&'static str>,
    /// Whether what a recovery states of the helpers' contributions must be content ids and a root, which the nodes compare. Otherwise
    /// other texts are recorded with a warning.
    pub content_ids_only: bool,
}

/// Aliases of signature profiles in requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileAliases(BTreeMap<String, &'static str>);

/// The alias that matches every name that is neither a profile nor another alias.
const ANY_NAME: &str = "*";

impl ProfileAliases {
    /// Reads `name=profile,...`; the name `*` matches every other name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut aliases = BTreeMap::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, profile) =
                pair.split_once('=').ok_or_else(|| format!("`{pair}` is not `name=profile`"))?;
            let (name, profile) = (name.trim(), known_profile(profile.trim())?);
            if name.is_empty() || SIGNATURE_PROFILES.contains(&name) {
                return Err(format!("`{name}` cannot be an alias"));
            }
            if aliases.insert(name.to_owned(), profile).is_some() {
                return Err(format!("`{name}` is given twice"));
            }
        }
        Ok(Self(aliases))
    }

    /// The profile that a name resolves to.
    #[must_use]
    pub fn resolve(&self, name: &str) -> Option<&'static str> {
        let alias = || self.0.get(name).or_else(|| self.0.get(ANY_NAME)).copied();
        known_profile(name).ok().or_else(alias)
    }

    /// The names that requests may use, for messages.
    #[must_use]
    pub fn names(&self) -> String {
        let names = SIGNATURE_PROFILES.iter().copied().chain(self.0.keys().map(String::as_str));
        names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    }
}

fn known_profile(profile: &str) -> Result<&'static str, String> {
    let known = SIGNATURE_PROFILES.into_iter().find(|known| *known == profile);
    known.ok_or_else(|| {
        format!("`{profile}` is not a profile; the profiles are {}", SIGNATURE_PROFILES.join(", "))
    })
}

/// The state that all handlers share.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    engine: Engine,
    authenticator: Authenticator,
    options: Options,
    metrics: fn() -> String,
}

impl App {
    /// `metrics` renders the counters in the text format of Prometheus.
    #[must_use]
    pub fn new(
        engine: Engine,
        authenticator: Authenticator,
        options: Options,
        metrics: fn() -> String,
    ) -> Self {
        Self(Arc::new(Inner { engine, authenticator, options, metrics }))
    }

    /// The use cases.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The authenticator of callers.
    #[must_use]
    pub fn authenticator(&self) -> &Authenticator {
        &self.0.authenticator
    }

    /// The results of all checks.
    pub async fn readiness(&self) -> ReadinessView {
        let (readiness, authentication) =
            tokio::join!(self.0.engine.readiness(), self.0.authenticator.check());
        ReadinessView::new(readiness, authentication, self.0.options.exceptions.clone())
    }

    /// All metrics, in the text format of Prometheus. Runs the checks of readiness, the expensive ones at most once a second.
    pub async fn metrics(&self) -> String {
        let health = self.0.engine.policy_health();
        let readiness = self.readiness().await;
        let mut text = (self.0.metrics)();
        text.push_str(&crate::counters::policy_gauges(&health));
        text.push_str(&crate::counters::check_gauges(&readiness));
        text.push_str(&crate::counters::approvers_gauge(self.0.engine.can_verify_approvals()));
        text
    }

    /// Limits and modes.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.0.options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_names_resolve_by_profile_alias_and_wildcard() {
        let aliases =
            ProfileAliases::parse(" btc = frost-secp256k1-sha256-tr , eth=frost-ed25519-sha512,").unwrap();
        assert_eq!(aliases.resolve("btc"), Some("frost-secp256k1-sha256-tr"));
        assert_eq!(aliases.resolve("frost-ed25519-sha512"), Some("frost-ed25519-sha512"));
        assert_eq!(aliases.resolve("*"), None);
        assert_eq!(aliases.resolve("doge"), None);
        let any = ProfileAliases::parse("*=frost-ed25519-sha512").unwrap();
        assert_eq!(any.resolve("doge"), Some("frost-ed25519-sha512"));
        assert_eq!(any.resolve("frost-secp256k1-sha256-tr"), Some("frost-secp256k1-sha256-tr"));
        for wrong in ["btc", "btc=rsa", "=frost-ed25519-sha512", "frost-ed25519-sha512=frost-ed25519-sha512"]
        {
            assert!(ProfileAliases::parse(wrong).is_err(), "{wrong}");
        }
        assert!(ProfileAliases::parse("a=frost-ed25519-sha512,a=frost-ed25519-sha512").is_err());
        assert_eq!(ProfileAliases::parse(""), Ok(ProfileAliases::default()));
    }
}
