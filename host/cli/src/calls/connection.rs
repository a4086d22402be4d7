//! The gateway that is called, and the caller: from a file of gateways, or from flags.

use super::output::{CallError, Output};
use clap::Args;
use gateway_client::{Gateway, Retries};
use gateway_seal::key_file;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use zeroize::Zeroizing;

/// The gateway without any setting.
const DEFAULT_URL: &str = "http://localhost:9200";

/// The variable with the gateway, as the flag has it.
const GATEWAY_VARIABLE: &str = "OPERATION_GATEWAY_URL";

/// The client that a development gateway takes the command line for.
pub(super) const CLIENT_ID: &str = "command-line";

/// Largest token, in bytes.
const TOKEN_BYTES_MAX: u64 = 16 << 10;

/// The variable with the token.
const TOKEN_VARIABLE: &str = "OPERATION_GATEWAY_TOKEN";

/// The gateway, the credentials, and how the answer is printed.
#[derive(Debug, Args)]
#[group(skip)]
pub struct Connection {
    /// A name in the file of gateways, or https://HOST[:PORT] [default: the variable OPERATION_GATEWAY_URL, `default` of the file, or http://localhost:9200]
    #[arg(long, value_name = "NAME OR URL")]
    gateway: Option<String>,
    /// The file of gateways [default: operation-gateway/gateways.toml in the folder of configurations]
    #[arg(long, value_name = "FILE")]
    gateways: Option<PathBuf>,
    /// The bearer token, in a secret file [default: that of the file of gateways, or the variable OPERATION_GATEWAY_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// PEM certificate authorities of the gateway [default: the system's]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// For how long a request is repeated that gets no answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    retry_seconds: u64,
    /// Who calls, for a development gateway that authenticates no one
    #[arg(long, value_name = "NAME")]
    subject: Option<String>,
    #[command(flatten)]
    pub(super) output: Output,
}

/// A gateway of the file. Paths are relative to the file's folder.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    url: String,
    token_file: Option<PathBuf>,
    ca: Option<PathBuf>,
    subject: Option<String>,
    #[serde(default)]
    roles: Vec<String>,
    tenant: Option<String>,
}

/// Who calls, as far as the command line says it.
#[derive(Clone, Debug, Default)]
pub(super) struct Caller {
    pub(super) subject: Option<String>,
    pub(super) roles: Vec<String>,
}

impl Connection {
    /// A client of the gateway. Sends nothing.
    pub(super) fn open(&self) -> Result<(Gateway, Caller), CallError> {
        let Known { url, token_file, ca, subject, roles, tenant } = self.known()?;
        let retries = Retries { during: Duration::from_secs(self.retry_seconds), ..Retries::default() };
        let mut builder = Gateway::builder(&url)?.retries(retries);
        if let Some(path) = &ca {
            let pem = std::fs::read(path).map_err(|error| unusable(path, &error.to_string()))?;
            builder = builder.authorities(&pem)?;
        }
        if let Some(token) = token(token_file.as_deref())? {
            builder = builder.token(&token)?;
        } else if let Some(subject) = &subject {
            builder = builder
                .header("x-client-id", CLIENT_ID)?
                .header("x-subject-id", subject)?
                .header("x-roles", &roles.join(" "))?
                .header("x-scopes", "operations.* custody.* audit.read webhooks.manage")?;
            if let Some(tenant) = &tenant {
                builder = builder.header("x-tenant", tenant)?;
            }
        }
        Ok((builder.build()?, Caller { subject, roles }))
    }

    /// What the file of gateways says, with the flags.
    fn known(&self) -> Result<Known, CallError> {
        let given = self.gateway.clone().or_else(|| std::env::var(GATEWAY_VARIABLE).ok());
        let given = given.filter(|given| !given.is_empty());
        let is_url = given.as_ref().is_some_and(|given| given.contains("://"));
        let mut known = match (&given, is_url) {
            (Some(url), true) => Known { url: url.clone(), ..Known::default() },
            (name, _) => {
                let (path, found) = self.file()?;
                let named = found.get(name.as_deref().unwrap_or("default")).cloned();
                match (named, name) {
                    (Some(known), _) => known.below(path.parent().unwrap_or(Path::new(""))),
                    (None, None) => Known { url: DEFAULT_URL.to_owned(), ..Known::default() },
                    (None, Some(name)) => {
                        return Err(unusable(&path, &format!("has no gateway `{name}`")));
                    }
                }
            }
        };
        known.token_file = self.token_file.clone().or(known.token_file);
        known.ca = self.ca.clone().or(known.ca);
        known.subject = self.subject.clone().or(known.subject);
        if known.subject.is_some() && known.roles.is_empty() {
            known.roles = vec!["approver".to_owned()];
        }
        Ok(known)
    }

    /// The file of gateways; without one it has none.
    fn file(&self) -> Result<(PathBuf, BTreeMap<String, Known>), CallError> {
        let path = self.gateways.clone().unwrap_or_else(default_file);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.gateways.is_none() => {
                String::new()
            }
            Err(error) => return Err(unusable(&path, &error.to_string())),
        };
        let found = toml::from_str(&text).map_err(|error| unusable(&path, error.message()))?;
        Ok((path, found))
    }
}

impl Known {
    fn below(self, folder: &Path) -> Self {
        let below = |path: PathBuf| folder.join(path);
        Self { token_file: self.token_file.map(below), ca: self.ca.map(below), ..self }
    }
}

/// The token is never an argument, which every user of the machine could see.
fn token(file: Option<&Path>) -> Result<Option<Zeroizing<String>>, CallError> {
    let text = match file {
        Some(path) => key_file::load_bytes(path, TOKEN_BYTES_MAX)
            .map_err(|error| CallError::Unusable(error.to_string()))?,
        None => match std::env::var_os(TOKEN_VARIABLE).filter(|value| !value.is_empty()) {
            Some(value) => Zeroizing::new(value.into_encoded_bytes()),
            None => return Ok(None),
        },
    };
    let text =
        std::str::from_utf8(&text).map_err(|_| CallError::Unusable("the token is not text".to_owned()))?;
    Ok(Some(Zeroizing::new(text.trim().to_owned())))
}

fn default_file() -> PathBuf {
    let folder = std::env::var_os("XDG_CONFIG_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".config");
    folder.unwrap_or_else(home).join("operation-gateway/gateways.toml")
}

fn unusable(path: &Path, why: &str) -> CallError {
    CallError::Unusable(format!("`{}`: {why}", path.display()))
}
