//! `/v1/policy/preview` compared with a handler that takes the same request through the same layers, parses it to the same type,
//! and answers with the same bytes.

use crate::flows::total_per_second;
use crate::http::{Client, post};
use crate::{Measured, median, world};
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::{Extension, Router, routing};
use gateway_api::extract::{Body, Caller};
use gateway_api::state::App;
use gateway_api::wire::policy::PolicyPreviewRequest;
use gateway_auth::Scope;
use gateway_domain::testing::requests::{approval, payment};
use gateway_service::layers::observe;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

const N_CONNECTIONS: usize = 32;
const N_ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(2);

static ANSWER: OnceLock<Vec<u8>> = OnceLock::new();

async fn echo(_: State<App>, _: Caller, body: Body<PolicyPreviewRequest>) -> impl IntoResponse {
    std::hint::black_box(&body.value);
    ([(header::CONTENT_TYPE, "application/json")], ANSWER.get().map(Vec::as_slice).unwrap_or_default())
}

pub(crate) async fn measure() -> Measured<()> {
    let folders = [tempfile::tempdir()?, tempfile::tempdir()?];
    let gateway = world::open(folders[0].path()).await?;
    let unrecorded = world::open_with(folders[1].path(), &[("preview_records_max", "0")]).await?;
    let echo = Router::new()
        .route("/echo", routing::post(echo))
        .layer(Extension(Scope::OperationsAny))
        .layer(axum::middleware::from_fn(observe))
        .with_state(gateway.app.clone());
    let address = serve(gateway_api::router(gateway.app.clone()).merge(echo)).await?;
    let unrecorded = serve(gateway_api::router(unrecorded.app.clone())).await?;
    let body = json!({ "intent": payment("preview"), "approvals": [approval("alice")] });
    let preview = post("/v1/policy/preview", &body);
    let answer = Client::connect(address).await?.send(&preview).await?.to_vec();
    let _once = ANSWER.set(answer);
    let echo = post("/echo", &body);
    let mut measured = [Vec::new(), Vec::new(), Vec::new()];
    let (mut unrecorded_ratios, mut recorded) = (Vec::new(), Vec::new());
    for _ in 0..N_ROUNDS {
        let echo = per_second(address, &echo, N_CONNECTIONS).await?;
        let off = per_second(unrecorded, &preview, N_CONNECTIONS).await?;
        let on = per_second(address, &preview, N_CONNECTIONS).await?;
        unrecorded_ratios.push(off / echo);
        recorded.push(on / off);
        for (all, one) in measured.iter_mut().zip([echo, off, on]) {
            all.push(one);
        }
    }
    let [mut echoes, mut off, mut on] = measured;
    println!("preview, {N_CONNECTIONS} connections, {N_ROUNDS} rounds in turns (medians)");
    println!("  echo                 {:8.0} requests/s", median(&mut echoes));
    println!("  preview, unrecorded  {:8.0} requests/s", median(&mut off));
    println!("  preview, recorded    {:8.0} requests/s", median(&mut on));
    println!("  unrecorded / echo    {:8.2}", median(&mut unrecorded_ratios));
    println!("  recorded/unrecorded  {:8.2}", median(&mut recorded));
    for n_connections in [1, 8, 128, 512] {
        let on = per_second(address, &preview, n_connections).await?;
        println!("  recorded, {n_connections:3} connections {on:8.0} requests/s");
    }
    let bytes = std::fs::metadata(folders[0].path().join("gateway.db"))?.len();
    let written = gateway.store.counters();
    println!("  transactions {}, database {} MiB", written.transactions, bytes >> 20);
    Ok(())
}

pub(crate) async fn serve(router: Router) -> Measured<SocketAddr> {
    use axum::serve::ListenerExt;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    tokio::spawn(axum::serve(listener, router).into_future());
    Ok(address)
}

/// Requests a second in one round, on `n_connections`.
async fn per_second(address: SocketAddr, request: &[u8], n_connections: usize) -> Measured<f64> {
    let started = Instant::now();
    let clients = (0..n_connections).map(|_| {
        let request = request.to_vec();
        tokio::spawn(async move {
            let mut client = Client::connect(address).await?;
            let mut n_answers = 0_u32;
            while started.elapsed() < ROUND {
                client.send(&request).await?;
                n_answers += 1;
            }
            Measured::Ok(n_answers)
        })
    });
    total_per_second(started, clients.collect()).await
}
