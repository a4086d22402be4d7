//! Settings of authentication. Each mode has its own settings; giving one of another mode is a fault.

use super::{Profile, Reader, Settings};
use gateway_auth::{Addresses, ClaimName, ClaimRules, ProviderUrl};
use gateway_service::settings::Secret;
use gateway_service::settings::{Section, setting};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const AUTH: Section = Section {
    name: "auth",
    heading: "Authentication",
    settings: &[
        setting(
            "auth_mode",
            "bypass",
            "bypass|trusted_headers|jwks|introspection",
            "How callers are authenticated; see host/docs/authentication.md for the settings of each mode",
        ),
        setting(
            "tenant_required",
            "false",
            "true|false",
            "Whether a caller without a tenant is refused; otherwise such callers share the tenant `default`",
        ),
        setting(
            "trusted_proxies",
            "",
            "ADDRESS|CIDR,...",
            "Proxies whose identity headers and x-client-cert-sha256 are trusted",
        ),
        setting("jwks_url", "", "URL", "The issuer's keys: https, or http on loopback"),
        setting(
            "jwks_file",
            "",
            "FILE",
            "Instead of jwks_url: a file with a JSON Web Key Set; read again like jwks_url, and on SIGHUP",
        ),
        setting(
            "jwks_max_age_ms",
            "86400000",
            "MILLISECONDS",
            "How long keys are used while they cannot be fetched; in use they are fetched every five minutes, and for an unknown key",
        ),
        setting("token_issuer", "", "TEXT", "The required `iss` of tokens"),
        setting("token_audience", "", "TEXT", "The required `aud` of tokens, or one of its values"),
        setting(
            "token_client_claims",
            "client_id,azp",
            "CLAIM,...",
            "Claims with the calling system, of which the first present is used; a name that starts with / is a JSON pointer",
        ),
        setting(
            "token_scopes_claims",
            "scope,scp",
            "CLAIM,...",
            "Claims with the caller's scopes, of which the first present is used, such as `roles` or `permissions`",
        ),
        setting("token_roles_claim", "roles", "CLAIM", "The claim with the caller's roles"),
        setting("token_tenant_claim", "tenant", "CLAIM", "The claim with the caller's tenant"),
        setting(
            "introspection_url",
            "",
            "URL",
            "The token introspection endpoint: https, or http on loopback",
        ),
        setting("introspection_client_id", "", "TEXT", "The gateway's client id at the identity provider"),
        setting(
            "introspection_client_secret_file",
            "",
            "FILE",
            "The gateway's client secret, one line, in a secret file; or the secret itself in the environment variable \
             SVC_OPERATION_GATEWAY_INTROSPECTION_CLIENT_SECRET",
        ),
        setting(
            "identity_provider_ca",
            "",
            "FILE",
            "Certificate authorities of the identity provider, PEM; empty for those of the system",
        ),
    ],
};

/// How callers are authenticated.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub enum Auth {
    /// Callers are not authenticated.
    Bypass,
    /// A proxy authenticates them, and sends the identity in headers.
    TrustedHeaders { proxies: Addresses },
    /// By tokens that are verified with the issuer's keys.
    Jwks { proxies: Addresses, keys: IssuerKeys, max_age: Duration, rules: ClaimRules },
    /// By tokens that the identity provider verifies (RFC 7662).
    Introspection {
        proxies: Addresses,
        url: ProviderUrl,
        ca: Option<PathBuf>,
        client_id: String,
        client_secret: ClientSecretSource,
        rules: ClaimRules,
    },
}

/// The source of the issuer's keys.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub enum IssuerKeys {
    /// The identity provider.
    Url { url: ProviderUrl, ca: Option<PathBuf> },
    /// A file that an operator maintains.
    File(PathBuf),
}

/// The source of the gateway's secret at the identity provider.
#[derive(Clone, Debug)]
pub enum ClientSecretSource {
    /// A file.
    File(PathBuf),
    /// The environment.
    Environment(Secret),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Bypass,
    TrustedHeaders,
    Jwks,
    Introspection,
}

const MODES: [(&str, Mode); 4] = [
    ("bypass", Mode::Bypass),
    ("trusted_headers", Mode::TrustedHeaders),
    ("jwks", Mode::Jwks),
    ("introspection", Mode::Introspection),
];

/// The secret itself, which only the environment may have.
pub(super) const CLIENT_SECRET: &str = "introspection_client_secret";

/// The settings that belong to modes, and the modes that use them.
const MODES_OF_SETTINGS: [(&str, &[Mode]); 15] = [
    ("trusted_proxies", &[Mode::TrustedHeaders, Mode::Jwks, Mode::Introspection]),
    ("jwks_url", &[Mode::Jwks]),
    ("jwks_file", &[Mode::Jwks]),
    ("jwks_max_age_ms", &[Mode::Jwks]),
    ("token_issuer", &[Mode::Jwks, Mode::Introspection]),
    ("token_audience", &[Mode::Jwks, Mode::Introspection]),
    ("token_client_claims", &[Mode::Jwks, Mode::Introspection]),
    ("token_scopes_claims", &[Mode::Jwks, Mode::Introspection]),
    ("token_roles_claim", &[Mode::Jwks, Mode::Introspection]),
    ("token_tenant_claim", &[Mode::Jwks, Mode::Introspection]),
    ("identity_provider_ca", &[Mode::Jwks, Mode::Introspection]),
    ("introspection_url", &[Mode::Introspection]),
    ("introspection_client_id", &[Mode::Introspection]),
    ("introspection_client_secret_file", &[Mode::Introspection]),
    (CLIENT_SECRET, &[Mode::Introspection]),
];

impl Reader<'_> {
    /// The mode with its settings; [`Auth::Bypass`] is the placeholder for a mode with a fault.
    pub(super) fn auth(&mut self) -> Auth {
        let mode = self.one_of("auth_mode", &MODES, Mode::Bypass);
        let chosen = self.resolved.text("auth_mode");
        for (name, _) in MODES_OF_SETTINGS.iter().filter(|(_, modes)| !modes.contains(&mode)) {
            if self.resolved.is_given(name) {
                self.fault(name, &format!("must not be given while `auth_mode` is `{chosen}`"));
            }
        }
        let auth = match mode {
            Mode::Bypass => Some(Auth::Bypass),
            Mode::TrustedHeaders => self.trusted_headers(),
            Mode::Jwks => self.jwks(),
            Mode::Introspection => self.introspection(),
        };
        auth.unwrap_or(Auth::Bypass)
    }

    fn trusted_headers(&mut self) -> Option<Auth> {
        let proxies = self.proxies()?;
        if proxies.is_empty() {
            self.missing("trusted_proxies");
        }
        Some(Auth::TrustedHeaders { proxies })
    }

    fn jwks(&mut self) -> Option<Auth> {
        let proxies = self.proxies();
        for name in ["token_issuer", "token_audience"] {
            if self.resolved.text(name).is_empty() {
                self.missing(name);
            }
        }
        let (rules, keys) = (self.rules(false), self.issuer_keys());
        let max_age = self.duration("jwks_max_age_ms");
        Some(Auth::Jwks { proxies: proxies?, keys: keys?, max_age, rules: rules? })
    }

    fn issuer_keys(&mut self) -> Option<IssuerKeys> {
        let ca = self.path("identity_provider_ca");
        match (self.resolved.text("jwks_url"), self.path("jwks_file")) {
            ("", None) => {
                self.missing("jwks_url");
                None
            }
            ("", Some(file)) => {
                if ca.is_some() {
                    self.fault("identity_provider_ca", "must not be given together with `jwks_file`");
                }
                Some(IssuerKeys::File(file))
            }
            (_, None) => self.url("jwks_url").map(|url| IssuerKeys::Url { url, ca }),
            (_, Some(_)) => {
                self.fault("jwks_file", "must not be given together with `jwks_url`");
                None
            }
        }
    }

    fn introspection(&mut self) -> Option<Auth> {
        let (proxies, rules, url) = (self.proxies(), self.rules(true), self.url("introspection_url"));
        let client_id = self.resolved.text("introspection_client_id").to_owned();
        if client_id.is_empty() {
            self.missing("introspection_client_id");
        }
        // A provider reports tokens that were issued for other services as active too.
        for name in ["token_issuer", "token_audience"] {
            if self.resolved.text("profile") == "production" && self.resolved.text(name).is_empty() {
                self.fault(name, "must be given in production while `auth_mode` is `introspection`");
            }
        }
        let ca = self.path("identity_provider_ca");
        let client_secret = self.client_secret();
        let (proxies, url, client_secret, rules) = (proxies?, url?, client_secret?, rules?);
        Some(Auth::Introspection { proxies, url, ca, client_id, client_secret, rules })
    }

    fn client_secret(&mut self) -> Option<ClientSecretSource> {
        let name = "introspection_client_secret_file";
        match (self.path(name), self.resolved.secret(CLIENT_SECRET).cloned()) {
            (Some(file), None) => Some(ClientSecretSource::File(file)),
            (None, Some(secret)) => Some(ClientSecretSource::Environment(secret)),
            (Some(_), Some(_)) => {
                self.fault(name, &format!("must not be given together with `{CLIENT_SECRET}`"));
                None
            }
            (None, None) => {
                self.missing(name);
                None
            }
        }
    }

    fn proxies(&mut self) -> Option<Addresses> {
        let proxies = self.resolved.text("trusted_proxies").parse();
        let wrong = |why: gateway_auth::InvalidAddresses| format!("must be addresses and CIDR blocks: {why}");
        proxies.map_err(|why| self.fault("trusted_proxies", &wrong(why))).ok()
    }

    fn url(&mut self, name: &str) -> Option<ProviderUrl> {
        if self.resolved.text(name).is_empty() {
            self.missing(name);
            return None;
        }
        let url = self.resolved.text(name).parse();
        url.map_err(|why: gateway_auth::InvalidProvider| self.fault(name, &why.to_string())).ok()
    }

    fn rules(&mut self, client_is_subject: bool) -> Option<ClaimRules> {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let issuer = some(self.resolved.text("token_issuer"));
        let audience = some(self.resolved.text("token_audience"));
        let client = self.claim_names("token_client_claims");
        let scopes = self.claim_names("token_scopes_claims");
        let roles = self.claim_name("token_roles_claim", self.resolved.text("token_roles_claim"));
        let tenant = self.claim_name("token_tenant_claim", self.resolved.text("token_tenant_claim"));
        Some(ClaimRules {
            issuer,
            audience,
            client: client?,
            scopes: scopes?,
            roles: roles?,
            tenant: tenant?,
            client_is_subject,
        })
    }

    fn claim_names(&mut self, name: &str) -> Option<Vec<ClaimName>> {
        let texts: Vec<_> =
            self.resolved.text(name).split(',').map(str::trim).filter(|text| !text.is_empty()).collect();
        if texts.is_empty() {
            self.missing(name);
        }
        texts.into_iter().map(|text| self.claim_name(name, text)).collect()
    }

    fn claim_name(&mut self, name: &str, text: &str) -> Option<ClaimName> {
        text.parse().map_err(|why| self.fault(name, why)).ok()
    }

    pub(super) fn check_auth(&mut self, settings: &Settings) {
        if settings.profile == Profile::Production && self.resolved.text("auth_mode") == "bypass" {
            self.fault("auth_mode", "must not be `bypass` in production");
        }
    }

    fn missing(&mut self, name: &str) {
        let chosen = self.resolved.text("auth_mode");
        self.fault(name, &format!("must be given while `auth_mode` is `{chosen}`"));
    }
}

#[cfg(test)]
mod tests;
