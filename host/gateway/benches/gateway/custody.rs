//! The duration of custody operations over HTTP, one at a time, with durable commits: from submission to the answer to execute.

use crate::http::{Client, post_nothing};
use crate::preview::serve;
use crate::{Measured, http, median, world};
use gateway_domain::testing::requests::{self, altered};
use serde_json::{Value, json};
use std::time::Instant;

const N_ROUNDS: usize = 5;

/// Thresholds, and numbers of share holders.
const SIZES: [(u16, u16); 3] = [(2, 3), (3, 5), (7, 10)];

pub(crate) async fn measure() -> Measured<()> {
    println!("custody operations over HTTP, one at a time, {N_ROUNDS} rounds (medians, ms)");
    println!("  {:28} {:>8} {:>8} {:>8} {:>8} {:>8}", "", "create", "sign", "refresh", "reshare", "recover");
    for profile in ["frost-ed25519-sha512", "frost-secp256k1-sha256-tr"] {
        for (threshold, n) in SIZES {
            let folder = tempfile::tempdir()?;
            let gateway = world::open(folder.path()).await?;
            let address = serve(gateway_api::router(gateway.app.clone())).await?;
            let mut client = Client::connect(address).await?;
            let mut measured: [Vec<f64>; 5] = Default::default();
            for round in 0..N_ROUNDS {
                let key = format!("key-{round}");
                for (series, (path, body)) in measured.iter_mut().zip(operations(&key, profile, threshold, n))
                {
                    let started = Instant::now();
                    run_operation(&mut client, &path, &body).await?;
                    series.push(started.elapsed().as_secs_f64() * 1e3);
                }
            }
            let [create, sign, refresh, reshare, recover] = measured.each_mut().map(|series| median(series));
            let name = format!("{threshold}-of-{n} {}", profile.split('-').nth(1).unwrap_or_default());
            println!("  {name:28} {create:8.1} {sign:8.1} {refresh:8.1} {reshare:8.1} {recover:8.1}");
        }
    }
    Ok(())
}

/// The paths and bodies of one operation of each type on one key.
fn operations(key: &str, profile: &str, threshold: u16, n: u16) -> [(String, Value); 5] {
    let on = |action: &str| format!("/v1/custody/keys/{key}/{action}");
    let all: Vec<u16> = (0..n).collect();
    let created = json!({ "threshold": threshold, "participants": all, "signature_profile": profile });
    let signed = json!({ "requested_participants": all, "publication_mode": "automatic" });
    let change = |epoch: &str, members| {
        let automatic = altered(requests::refresh(epoch), json!({ "publication_mode": "automatic" }));
        altered(automatic, members)
    };
    // One holder leaves and two join; the threshold rises by one.
    let joined: Vec<u16> = (1..n + 2).collect();
    let reshared = json!({ "new_participants": joined, "threshold": threshold + 1 });
    let helpers: Vec<u16> = (2..threshold + 3).collect();
    let recovered = json!({
        "recovery_case_ref": "case", "recovering_participant": 1, "helper_participants": helpers, "helper_share_cids": [],
    });
    [
        ("/v1/custody/keys".to_owned(), altered(requests::key(key), created)),
        (on("sign"), altered(requests::sign("s"), signed)),
        (on("refresh"), change("2", json!({}))),
        (on("reshare"), change("3", reshared)),
        (on("recover"), change("4", recovered)),
    ]
}

/// Submits, approves and executes an operation, which the gateway then publishes itself.
async fn run_operation(client: &mut Client, path: &str, body: &Value) -> Measured<()> {
    let operations = "/v1/custody/operations";
    let id = http::submit_and_approve(client, path, body, operations).await?;
    let executed = client.send(&post_nothing(&format!("{operations}/{id}/execute"))).await?;
    if !std::str::from_utf8(executed)?.contains("\"state\":\"executed\"") {
        return Err(String::from_utf8_lossy(executed).into_owned().into());
    }
    Ok(())
}
