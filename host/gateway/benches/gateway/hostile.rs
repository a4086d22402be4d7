//! The latency of requests that need no policy, while other requests evaluate a bundle: the default one, or a hostile one. A
//! policy that misbehaves must not slow down other requests.

use crate::http::Client;
use crate::preview::serve;
use crate::{Measured, http, median, world};
use gateway_domain::testing::requests::payment;
use gateway_policy::testing::{HOSTILE, load_hostile};
use gateway_policy::{Evaluator, PolicyEngine};
use gateway_policy_host::PolicyHost;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const N_LOADING: usize = 16;
const N_OTHERS: usize = 4;
const N_ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);

pub(crate) async fn measure() -> Measured<()> {
    let folder = tempfile::tempdir()?;
    let gateway = world::open(folder.path()).await?;
    let host = gateway.policies.host();
    let default = host.active().ok_or("no active bundle")?;
    let address = serve(gateway_api::router(gateway.app.clone())).await?;
    let load = http::post("/v1/policy/preview", &json!({ "intent": payment("hostile"), "approvals": [] }));
    let created = Client::connect(address)
        .await?
        .send(&http::post("/v1/operations/sign", &payment("read")))
        .await?
        .to_vec();
    let created: serde_json::Value = serde_json::from_slice(&created)?;
    let id = created
        .pointer("/operation/operation_id")
        .and_then(serde_json::Value::as_str)
        .ok_or("no operation")?;
    let other = format!("GET /v1/operations/{id} HTTP/1.1\r\nhost: gateway\r\n\r\n").into_bytes();

    println!(
        "p99 of GET /v1/operations/{{id}} on {N_OTHERS} connections while {N_LOADING} request previews (medians of {N_ROUNDS} rounds in turns)"
    );
    let engine = PolicyEngine::new()?;
    for (name, pages, evaluate) in HOSTILE {
        let hostile = Arc::new(load_hostile(&engine, pages, evaluate));
        let (mut normal, mut beside, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let mut n_previews = 0;
        for _ in 0..N_ROUNDS {
            host.activate(Arc::clone(&default));
            let usual = round(address, &load, &other).await?.0;
            let (p99, n) = round_with(&host, Arc::clone(&hostile), address, &load, &other).await?;
            n_previews += n;
            ratios.push(p99 / usual);
            normal.push(usual);
            beside.push(p99);
        }
        println!(
            "  {name:26} default bundle {:7.2} ms, hostile {:7.2} ms, ratio {:5.2}  ({} previews)",
            median(&mut normal),
            median(&mut beside),
            median(&mut ratios),
            n_previews
        );
    }
    Ok(())
}

/// One round while the hostile bundle is active.
async fn round_with(
    host: &PolicyHost,
    hostile: Arc<Evaluator>,
    address: SocketAddr,
    load: &[u8],
    other: &[u8],
) -> Measured<(f64, u64)> {
    host.activate(hostile);
    round(address, load, other).await
}

/// The p99 of the other requests in milliseconds, and the number of previews answered meanwhile.
async fn round(address: SocketAddr, load: &[u8], other: &[u8]) -> Measured<(f64, u64)> {
    let over = Arc::new(AtomicBool::new(false));
    let n_previews = Arc::new(AtomicU64::new(0));
    let loading: Vec<_> = (0..N_LOADING)
        .map(|_| {
            let (over, n_previews, load) = (Arc::clone(&over), Arc::clone(&n_previews), load.to_vec());
            tokio::spawn(async move {
                let mut client = Client::connect(address).await?;
                while !over.load(Ordering::Relaxed) {
                    client.send(&load).await?;
                    n_previews.fetch_add(1, Ordering::Relaxed);
                }
                Measured::Ok(())
            })
        })
        .collect();
    let others: Vec<_> = (0..N_OTHERS).map(|_| tokio::spawn(times(address, other.to_vec()))).collect();
    let mut all = Vec::new();
    for other in others {
        all.extend(other.await??);
    }
    over.store(true, Ordering::Relaxed);
    for client in loading {
        client.await??;
    }
    all.sort_by(f64::total_cmp);
    let p99 = all.get(all.len() * 99 / 100).copied().ok_or("no request was answered")?;
    Ok((p99, n_previews.load(Ordering::Relaxed)))
}

/// Milliseconds of each request on one connection, with a pause after each.
async fn times(address: SocketAddr, request: Vec<u8>) -> Measured<Vec<f64>> {
    let (mut client, mut all) = (Client::connect(address).await?, Vec::new());
    let began = Instant::now();
    while began.elapsed() < ROUND {
        let sent = Instant::now();
        client.send(&request).await?;
        all.push(sent.elapsed().as_secs_f64() * 1_000.0);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(all)
}
