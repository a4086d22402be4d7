//! Errors of the bundle commands. Each message is one line.

use gateway_domain::ids::Hex32;
use gateway_policy::snapshot::SnapshotError;
use gateway_policy::{BundleError, EngineError};
use gateway_seal::key_file::KeyFileError;
use std::io;
use std::path::PathBuf;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Bundle(#[from] BundleError),
    #[error(
        "the manifest is not of these files: `operation-gateway bundle complete` writes their hashes into it"
    )]
    Incomplete(#[source] Box<BundleError>),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Snapshot(#[from] Box<SnapshotError>),
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),

    #[error("`{}` cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` cannot be written", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("`{}` is not a bundle: it has no `manifest.json`", .0.display())]
    NotABundle(PathBuf),
    #[error("`{}` is an archive, and this command writes into a folder: unpack it first", .0.display())]
    Archive(PathBuf),
    #[error("`{}` exists already", .0.display())]
    Exists(PathBuf),
    #[error("`{}` is not a policy name: use 1 to 48 lower case letters, digits and single `-`, first a letter, last not `-`, and no reserved word of Rust or cargo", .0)]
    PolicyName(String),
    #[error("the embedded template is broken: {0}")]
    Template(String),

    #[error("`{}` cannot be the content of a document: {why}", path.display())]
    Document { path: PathBuf, why: String },
    #[error("`{}` is not an activation record: {fault}", path.display())]
    Record { path: PathBuf, fault: String },
    #[error("key file `{}` is not valid: {fault}", path.display())]
    KeyFormat { path: PathBuf, fault: String },
    #[error("key file `{}` has a private seed that does not belong to its public key", .0.display())]
    KeyMismatch(PathBuf),
    #[error("`{0}` is not a bundle hash: 64 lowercase hexadecimal characters")]
    Hash(String),
    #[error("the operating system provided no randomness")]
    NoRandomness,

    #[error("`{0}` is not installed, or not on PATH: see https://rustup.rs")]
    NoTool(&'static str),
    #[error("`{0}` cannot be run")]
    Tool(&'static str, #[source] io::Error),
    #[error("`{tool}` failed ({status}){}", detail(.stderr))]
    ToolFailed { tool: String, status: std::process::ExitStatus, stderr: String },
    #[error("`{tool}` gave an unexpected answer: {fault}")]
    ToolAnswer { tool: &'static str, fault: String },
    #[error("the target `{target}` is not installed: run `rustup target add {target}` in `{}`", folder.display())]
    NoTarget { target: &'static str, folder: PathBuf },
    #[error("`{}` has no package that is a `cdylib`", .0.display())]
    NoComponent(PathBuf),
    #[error("`{}` has several packages that are a `cdylib`: name one of `{}` with --package", folder.display(), packages.join("`, `"))]
    ManyComponents { folder: PathBuf, packages: Vec<String> },
    #[error("the sources give component `{built}`, the bundle has `{committed}`")]
    NotReproduced { committed: Hex32, built: Hex32 },
    #[error("the module cannot be encoded as a component of its WIT world: {0}")]
    Component(String),

    #[error("the report cannot be written as JSON")]
    Json(#[source] serde_json::Error),
    #[error("`{0}` is not a URL of the form https://HOST[:PORT] or http://HOST[:PORT]")]
    Url(String),
    #[error(
        "a token is not sent over plain HTTP to another machine: use an https URL in place of `{0}`, or give no token"
    )]
    TokenInPlainText(String),
    #[error("the token in {origin} is not one line of 1 to {max} visible ASCII characters", max = super::activate::TOKEN_BYTES_MAX)]
    Token { origin: String },
    #[error("certificate authorities are for https, and `{0}` is plain HTTP")]
    CertificatesWithoutTls(String),
    #[error("the certificates in `{}` cannot be used: {fault}", path.display())]
    Certificates { path: PathBuf, fault: String },
    #[error("the HTTP client cannot start")]
    Client(#[source] gateway_service::process::Fault),
    #[error("the gateway at `{url}` does not answer")]
    Gateway { url: String, source: reqwest::Error },
    #[error("the gateway at `{url}` gave an unexpected answer: {fault}")]
    GatewayAnswer { url: String, fault: String },
    #[error("the gateway at `{url}` answers with {status}{}", status_hint(*status))]
    GatewayStatus { url: String, status: u16 },
    #[error("the gateway at `{url}` refuses the bundle: {why}")]
    Refused { url: String, why: String },
    #[error(
        "bundle `{hash}` is not active at the gateway `{url}` after {seconds} s; the active one: {found}"
    )]
    NotActive { url: String, hash: Hex32, seconds: u64, found: String },
    #[error("`{}` has the bundle `{hash}` now, but its activation is not confirmed", folder.display())]
    NotConfirmed { folder: PathBuf, hash: Hex32, source: Box<Error> },
}

/// What to do about a status, after a colon; empty if there is nothing to say.
fn status_hint(status: u16) -> &'static str {
    match status {
        401 => ": it needs a valid token, with --token-file FILE or the variable `OPERATION_GATEWAY_TOKEN`",
        403 => ": the token needs the scope `audit.read`, or one that begins with `operations.`",
        404 => ": no such path; give the address of the API, not that of another server",
        _ => "",
    }
}

/// The output of a tool on one line, after a colon; empty if the tool printed nothing.
fn detail(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { line } else { format!(": {line}") }
}
