//! Creates the authenticator from the settings.

use crate::settings::{Auth, ClientSecretSource, IssuerKeys, Settings};
use gateway_auth::{
    Authenticator, ClientSecret, Clock, Introspection, IntrospectionConfig, Jwks, JwksConfig, KeySource,
    Provider, ProviderUrl,
};
use gateway_seal::key_file;
use gateway_service::StartError;
use std::path::Path;
use std::sync::Arc;

/// The authenticator of the configured mode. Only reads files: a gateway starts without its identity provider, and rejects
/// callers until it answers.
///
/// # Errors
/// [`StartError`], which names the file and never its content.
pub(crate) fn open(settings: &Settings) -> Result<Authenticator, StartError> {
    open_mode(settings).map(|authenticator| authenticator.require_tenant(settings.auth.tenant_required))
}

fn open_mode(settings: &Settings) -> Result<Authenticator, StartError> {
    let clock: Clock = Arc::new(gateway_service::now);
    match &settings.auth.mode {
        Auth::Bypass => Ok(Authenticator::bypass()),
        Auth::TrustedHeaders { proxies } => Ok(Authenticator::trusted_headers(proxies.clone())),
        Auth::Jwks { proxies, keys, max_age, rules } => {
            let source = match keys {
                IssuerKeys::Url { url, ca } => KeySource::Provider(provider(url, ca.as_deref())?),
                IssuerKeys::File(path) => key_file_source(path)?,
            };
            let config = JwksConfig { source, max_age: *max_age, rules: rules.clone(), clock };
            Ok(Authenticator::jwks(Jwks::new(config), proxies.clone()))
        }
        Auth::Introspection { proxies, url, ca, client_id, client_secret, rules } => {
            let config = IntrospectionConfig {
                provider: provider(url, ca.as_deref())?,
                client_id: client_id.clone(),
                client_secret: secret(client_secret)?,
                rules: rules.clone(),
                clock,
            };
            let introspection = Introspection::new(config);
            let introspection = introspection.map_err(|why| StartError::new("introspection", why))?;
            Ok(Authenticator::introspection(introspection, proxies.clone()))
        }
    }
}

fn provider(url: &ProviderUrl, ca: Option<&Path>) -> Result<Provider, StartError> {
    let what = || match ca {
        Some(path) => format!("identity provider's authorities `{}`", path.display()),
        None => "identity provider".to_owned(),
    };
    let pem = ca.map(std::fs::read).transpose().map_err(|error| StartError::new(what(), error))?;
    Provider::new(url.clone(), pem.as_deref()).map_err(|why| StartError::new(what(), why))
}

/// A source that reads this file. Reads it once now, so that a mistake stops the start.
fn key_file_source(path: &Path) -> Result<KeySource, StartError> {
    let what = || format!("issuer's keys `{}`", path.display());
    let bytes = std::fs::read(path).map_err(|error| StartError::new(what(), error))?;
    let keys = gateway_auth::jose::KeySet::parse(&bytes).map_err(|fault| StartError::new(what(), fault))?;
    if keys.is_empty() {
        return Err(StartError::new(what(), "no key in it can be used"));
    }
    Ok(KeySource::File(path.to_owned()))
}

fn secret(source: &ClientSecretSource) -> Result<ClientSecret, StartError> {
    let what = "introspection client secret";
    let parsed = match source {
        ClientSecretSource::File(path) => {
            let text = key_file::load_passphrase(path).map_err(|error| StartError::new(what, error))?;
            ClientSecret::parse(&text)
        }
        ClientSecretSource::Environment(secret) => ClientSecret::parse(secret.expose()),
    };
    parsed.map_err(|problem| StartError::new(what, problem))
}
