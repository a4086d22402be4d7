//! Calls another of our processes: JSON over mutual TLS, HTTP/1.1. Both sides present certificates of the deployment's own
//! authority; the server's must be for the host name of the URL.

use crate::answer::ErrorBody;
use crate::traces;
use crate::transport::{TlsError, client_config};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Method, Response, StatusCode, redirect};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use reqwest::Url;

/// Largest answer, bytes.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Time limit for opening a connection. A process on another continent answers within a second.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// How long a connection may be idle: less than the servers allow, so that none is reused while the server closes it.
const IDLE_WITHIN: Duration = Duration::from_secs(30);

/// Idle connections that are kept for each server.
const IDLE_CONNECTIONS_MAX: usize = 64;

/// The body of an answer; `None` if it is longer than `bytes_max`.
///
/// # Errors
/// The answer breaks off.
pub async fn read_at_most(response: &mut Response, bytes_max: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len().saturating_add(chunk.len()) > bytes_max {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

/// The files of the client's side of mutual TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    /// The certificate chain, PEM, the client's own certificate first.
    pub certificate: PathBuf,
    /// The private key, PEM, in a secret file.
    pub key: PathBuf,
    /// The authorities that sign the servers' certificates, PEM.
    pub authorities: PathBuf,
}

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server could not be reached, or did not answer in time.
    #[error("no answer")]
    NoAnswer(#[source] Box<dyn Error + Send + Sync>),
    /// The server answered with an error.
    #[error("{}: {}", body.error, body.message)]
    Refused {
        /// The status.
        status: StatusCode,
        /// The body.
        body: ErrorBody,
    },
    /// The answer is not of the expected form.
    #[error("the answer has another form than expected")]
    Malformed(#[source] Box<dyn Error + Send + Sync>),
}

/// A client for the servers of one deployment. Cloning shares its connections.
#[derive(Clone, Debug)]
pub struct ServiceClient(Client);

impl ServiceClient {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`], one line.
    pub fn open(files: &ClientFiles) -> Result<Self, TlsError> {
        let config = client_config(&files.certificate, &files.key, &files.authorities)?;
        let client = Client::builder()
            .tls_backend_preconfigured(config)
            .https_only(true)
            .http1_only()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_WITHIN)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .pool_idle_timeout(IDLE_WITHIN)
            .dns_resolver(Arc::new(LocalNames))
            .build();
        client.map(Self).map_err(|error| TlsError::Client(error.to_string()))
    }

    /// Sends a request with a body. It is sent to its end even if this future is dropped.
    pub async fn post<Q: Serialize + Sync, T: DeserializeOwned>(
        &self,
        url: Url,
        request: &Q,
        within: Duration,
    ) -> Result<T, CallError> {
        let body = serde_json::to_vec(request).map_err(malformed)?;
        self.send(Method::POST, url, body, within).await
    }

    /// Sends a request without a body.
    pub async fn get<T: DeserializeOwned>(&self, url: Url, within: Duration) -> Result<T, CallError> {
        self.send(Method::GET, url, Vec::new(), within).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        url: Url,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<T, CallError> {
        let mut request = self.0.request(method, url).timeout(within);
        if !body.is_empty() {
            request = request.header(reqwest::header::CONTENT_TYPE, "application/json").body(body);
        }
        if let Some((name, value)) = traces::traceparent() {
            request = request.header(name, value);
        }
        // A task of its own: a caller that stops waiting neither cuts off the request nor closes the connection.
        let sending = tokio::spawn(async move {
            let mut response = request.send().await?;
            let mut bytes = Vec::new();
            while let Some(chunk) = response.chunk().await? {
                if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
                    break;
                }
                bytes.extend_from_slice(&chunk);
            }
            Ok::<_, reqwest::Error>((response.status(), bytes))
        });
        let sent = sending.await.map_err(|error| CallError::NoAnswer(error.into()))?;
        let (status, bytes) = sent.map_err(|error| CallError::NoAnswer(error.without_url().into()))?;
        if status.is_success() {
            return serde_json::from_slice(&bytes).map_err(malformed);
        }
        let body = serde_json::from_slice(&bytes).map_err(malformed)?;
        Err(CallError::Refused { status, body })
    }
}

fn malformed(error: serde_json::Error) -> CallError {
    CallError::Malformed(error.into())
}

/// Resolves names below `localhost` to loopback, as RFC 6761 section 6.3 asks for, and others with the system's resolver. So
/// several processes on one machine have names of their own in their certificates.
struct LocalNames;

impl Resolve for LocalNames {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let addresses: Vec<SocketAddr> = if host == "localhost" || host.ends_with(".localhost") {
                vec![(Ipv4Addr::LOCALHOST, 0).into()]
            } else {
                tokio::net::lookup_host((host, 0)).await?.collect()
            };
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
