//! What the gateway that runs with these settings says of itself.

use crate::settings::Settings;
use gateway_domain::error_chain;
use gateway_service::client::read_at_most;
use reqwest::{Client, Url, redirect};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// The gateway that runs with these settings.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Running {
    /// Nothing listens at its address.
    No,
    Ready,
    /// Each check that fails, with the reason.
    NotReady(BTreeMap<String, String>),
    /// The address gives no such answer, for this reason.
    Unknown(String),
    /// It has TLS and no address for probes.
    NotAsked,
}

/// The answer of `GET /readyz`, as far as it is read.
#[derive(Deserialize)]
struct Readiness {
    checks: BTreeMap<String, Check>,
}

#[derive(Deserialize)]
struct Check {
    status: String,
    #[serde(default)]
    detail: Option<String>,
}

/// Asks it, and waits `within` for each step.
pub(super) async fn ask(settings: &Settings, within: Duration) -> Running {
    let server = &settings.server;
    let address = here(server.admin_bind.unwrap_or(server.bind));
    // Port 0 is another one at each start.
    let connected = timeout(within, TcpStream::connect(address)).await;
    if address.port() == 0 || !matches!(connected, Ok(Ok(_))) {
        return Running::No;
    }
    if server.admin_bind.is_none() && settings.tls.files.is_some() {
        return Running::NotAsked;
    }
    match readiness(address, within).await {
        Err(why) => Running::Unknown(why),
        Ok(Readiness { checks }) => {
            let failed = checks.into_iter().filter(|(_, check)| check.status != "ok");
            let failed: BTreeMap<_, _> =
                failed.map(|(name, check)| (name, check.detail.unwrap_or_default())).collect();
            if failed.is_empty() { Running::Ready } else { Running::NotReady(failed) }
        }
    }
}

async fn readiness(address: SocketAddr, within: Duration) -> Result<Readiness, String> {
    let no_answer = |error: reqwest::Error| error_chain(&error.without_url());
    let url = Url::parse(&format!("http://{address}/readyz")).map_err(|error| error.to_string())?;
    let client = Client::builder().redirect(redirect::Policy::none()).no_proxy().timeout(within);
    let client = client.tls_certs_only([]).build().map_err(no_answer)?;
    let mut answer = client.get(url).send().await.map_err(no_answer)?;
    let body = read_at_most(&mut answer, ANSWER_BYTES_MAX).await.map_err(no_answer)?;
    let body = body.ok_or_else(|| format!("its answer is longer than {ANSWER_BYTES_MAX} bytes"))?;
    serde_json::from_slice(&body).map_err(|_| format!("it answers with {}", answer.status()))
}

/// The address at which this machine reaches a process that listens at `bind`.
fn here(bind: SocketAddr) -> SocketAddr {
    let address = match bind.ip() {
        IpAddr::V4(address) if address.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(address) if address.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        address => address,
    };
    SocketAddr::new(address, bind.port())
}
