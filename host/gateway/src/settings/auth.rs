//! Settings of authentication. Each mode has its own settings; giving one of another mode is a fault.

use gateway_auth::{Addresses, ClaimName, ClaimRules, ProviderUrl};
use gateway_domain::policy::facts::{CLAIM, is_claim_name};
use gateway_service::settings;
use gateway_service::settings::{Reader, Secret};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

settings! {
    /// Who calls, and for which tenant.
    #[derive(Clone, Debug)]
    pub struct Authentication("auth", "Authentication") {
        /// How callers are authenticated; see host/docs/authentication.md for the settings of each mode
        auth_mode = "bypass", "bypass|trusted_headers|jwks|introspection" => mode: Auth = auth;
        /// Whether a caller without a tenant is refused; otherwise such callers share the tenant `default`
        tenant_required = "false", "true|false" => tenant_required: bool = Reader::flag;
        /// Proxies whose identity headers and x-client-cert-sha256 are trusted
        trusted_proxies = "", "ADDRESS|CIDR,...";
        /// The issuer's keys: https, or http on loopback
        jwks_url = "", "URL";
        /// Instead of jwks_url: a file with a JSON Web Key Set; read again like jwks_url, and on SIGHUP
        jwks_file = "", "FILE";
        /// How long keys are used while they cannot be fetched; in use they are fetched every five minutes, and for an unknown key
        jwks_max_age_ms = "86400000", "MILLISECONDS";
        /// The required `iss` of tokens
        token_issuer = "", "TEXT";
        /// The required `aud` of tokens, or one of its values
        token_audience = "", "TEXT";
        /// Claims with the calling system, of which the first present is used; a name that starts with / is a JSON pointer
        token_client_claims = "client_id,azp", "CLAIM,...";
        /// Claims with the caller's scopes, of which the first present is used, such as `roles` or `permissions`
        token_scopes_claims = "scope,scp", "CLAIM,...";
        /// The claim with the caller's roles
        token_roles_claim = "roles", "CLAIM";
        /// The claim with the caller's tenant
        token_tenant_claim = "tenant", "CLAIM";
        /// Claims that policies read as facts `claim.NAME` when an operation is submitted or previewed
        token_fact_claims = "", "NAME[=CLAIM],...";
        /// The token introspection endpoint: https, or http on loopback
        introspection_url = "", "URL";
        /// The gateway's client id at the identity provider
        introspection_client_id = "", "TEXT";
        /// The gateway's client secret, one line, in a secret file; or the secret itself in the environment variable
        /// SVC_OPERATION_GATEWAY_INTROSPECTION_CLIENT_SECRET
        introspection_client_secret_file = "", "FILE";
        /// Certificate authorities of the identity provider, PEM; empty for those of the system
        identity_provider_ca = "", "FILE";
    }
}

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
const MODES_OF_SETTINGS: [(&str, &[Mode]); 16] = [
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
    ("token_fact_claims", &[Mode::Jwks, Mode::Introspection]),
    ("identity_provider_ca", &[Mode::Jwks, Mode::Introspection]),
    ("introspection_url", &[Mode::Introspection]),
    ("introspection_client_id", &[Mode::Introspection]),
    ("introspection_client_secret_file", &[Mode::Introspection]),
    (CLIENT_SECRET, &[Mode::Introspection]),
];

/// The mode with its settings; [`Auth::Bypass`] is the placeholder for a mode with a fault.
fn auth(reader: &mut Reader<'_>, name: &str) -> Auth {
    let mode = reader.one_of(name, &MODES, Mode::Bypass);
    let chosen = reader.resolved.text(name);
    for (name, _) in MODES_OF_SETTINGS.iter().filter(|(_, modes)| !modes.contains(&mode)) {
        if reader.resolved.is_given(name) {
            reader.fault(name, &format!("must not be given while `auth_mode` is `{chosen}`"));
        }
    }
    let auth = match mode {
        Mode::Bypass => Some(Auth::Bypass),
        Mode::TrustedHeaders => trusted_headers(reader),
        Mode::Jwks => jwks(reader),
        Mode::Introspection => introspection(reader),
    };
    auth.unwrap_or(Auth::Bypass)
}

fn trusted_headers(reader: &mut Reader<'_>) -> Option<Auth> {
    let proxies = proxies(reader)?;
    if proxies.is_empty() {
        missing(reader, "trusted_proxies");
    }
    Some(Auth::TrustedHeaders { proxies })
}

fn jwks(reader: &mut Reader<'_>) -> Option<Auth> {
    let proxies = proxies(reader);
    for name in ["token_issuer", "token_audience"] {
        if reader.resolved.text(name).is_empty() {
            missing(reader, name);
        }
    }
    let (rules, keys) = (rules(reader, false), issuer_keys(reader));
    let max_age = reader.duration("jwks_max_age_ms");
    Some(Auth::Jwks { proxies: proxies?, keys: keys?, max_age, rules: rules? })
}

fn issuer_keys(reader: &mut Reader<'_>) -> Option<IssuerKeys> {
    let ca = reader.path("identity_provider_ca");
    match (reader.resolved.text("jwks_url"), reader.path("jwks_file")) {
        ("", None) => {
            missing(reader, "jwks_url");
            None
        }
        ("", Some(file)) => {
            if ca.is_some() {
                reader.fault("identity_provider_ca", "must not be given together with `jwks_file`");
            }
            Some(IssuerKeys::File(file))
        }
        (_, None) => url(reader, "jwks_url").map(|url| IssuerKeys::Url { url, ca }),
        (_, Some(_)) => {
            reader.fault("jwks_file", "must not be given together with `jwks_url`");
            None
        }
    }
}

fn introspection(reader: &mut Reader<'_>) -> Option<Auth> {
    let (proxies, rules, url) = (proxies(reader), rules(reader, true), url(reader, "introspection_url"));
    let client_id = reader.resolved.text("introspection_client_id").to_owned();
    if client_id.is_empty() {
        missing(reader, "introspection_client_id");
    }
    // A provider reports tokens that were issued for other services as active too.
    for name in ["token_issuer", "token_audience"] {
        if reader.resolved.text("profile") == "production" && reader.resolved.text(name).is_empty() {
            reader.fault(name, "must be given in production while `auth_mode` is `introspection`");
        }
    }
    let ca = reader.path("identity_provider_ca");
    let client_secret = client_secret(reader);
    let (proxies, url, client_secret, rules) = (proxies?, url?, client_secret?, rules?);
    Some(Auth::Introspection { proxies, url, ca, client_id, client_secret, rules })
}

fn client_secret(reader: &mut Reader<'_>) -> Option<ClientSecretSource> {
    let name = "introspection_client_secret_file";
    match (reader.path(name), reader.resolved.secret(CLIENT_SECRET).cloned()) {
        (Some(file), None) => Some(ClientSecretSource::File(file)),
        (None, Some(secret)) => Some(ClientSecretSource::Environment(secret)),
        (Some(_), Some(_)) => {
            reader.fault(name, &format!("must not be given together with `{CLIENT_SECRET}`"));
            None
        }
        (None, None) => {
            missing(reader, name);
            None
        }
    }
}

fn proxies(reader: &mut Reader<'_>) -> Option<Addresses> {
    let proxies = reader.resolved.text("trusted_proxies").parse();
    let wrong = |why: gateway_auth::InvalidAddresses| format!("must be addresses and CIDR blocks: {why}");
    proxies.map_err(|why| reader.fault("trusted_proxies", &wrong(why))).ok()
}

fn url(reader: &mut Reader<'_>, name: &str) -> Option<ProviderUrl> {
    if reader.resolved.text(name).is_empty() {
        missing(reader, name);
        return None;
    }
    let url = reader.resolved.text(name).parse();
    url.map_err(|why: gateway_auth::InvalidProvider| reader.fault(name, &why.to_string())).ok()
}

fn rules(reader: &mut Reader<'_>, client_is_subject: bool) -> Option<ClaimRules> {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let issuer = some(reader.resolved.text("token_issuer"));
    let audience = some(reader.resolved.text("token_audience"));
    let client = claim_names(reader, "token_client_claims");
    let scopes = claim_names(reader, "token_scopes_claims");
    let roles = claim_name(reader, "token_roles_claim", reader.resolved.text("token_roles_claim"));
    let tenant = claim_name(reader, "token_tenant_claim", reader.resolved.text("token_tenant_claim"));
    let facts = fact_claims(reader);
    Some(ClaimRules {
        issuer,
        audience,
        client: client?,
        scopes: scopes?,
        roles: roles?,
        tenant: tenant?,
        facts: facts?,
        client_is_subject,
    })
}

/// The claims that are facts, by the names of the facts.
fn fact_claims(reader: &mut Reader<'_>) -> Option<BTreeMap<String, ClaimName>> {
    let name = "token_fact_claims";
    let mut claims = BTreeMap::new();
    for entry in reader.list(name) {
        let (fact, claim) = entry.split_once('=').unwrap_or((entry, entry));
        if !is_claim_name(fact) {
            reader
                .fault(name, &format!("must have names of lower case letters, digits and `_`, not `{fact}`"));
            return None;
        }
        if claims.insert(format!("{CLAIM}{fact}"), claim_name(reader, name, claim)?).is_some() {
            reader.fault(name, &format!("must have `{fact}` once"));
            return None;
        }
    }
    Some(claims)
}

fn claim_names(reader: &mut Reader<'_>, name: &str) -> Option<Vec<ClaimName>> {
    let texts: Vec<_> =
        reader.resolved.text(name).split(',').map(str::trim).filter(|text| !text.is_empty()).collect();
    if texts.is_empty() {
        missing(reader, name);
    }
    texts.into_iter().map(|text| claim_name(reader, name, text)).collect()
}

fn claim_name(reader: &mut Reader<'_>, name: &str, text: &str) -> Option<ClaimName> {
    text.parse().map_err(|why| reader.fault(name, why)).ok()
}

fn missing(reader: &mut Reader<'_>, name: &str) {
    let chosen = reader.resolved.text("auth_mode");
    reader.fault(name, &format!("must be given while `auth_mode` is `{chosen}`"));
}

#[cfg(test)]
mod tests;
