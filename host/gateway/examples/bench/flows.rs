//! Full flows over HTTP (submit, two approvals, execute, publish) with durable commits, against the bare store making
//! as many commits: the very events of a real flow, and then empty-handed ones for the commits that the nodes make.

use crate::http::{Client, post};
use crate::preview::serve;
use crate::{Measured, median, samples, world};
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::operation::{Change, Event, replay};
use gateway_engine::ports::{Commit, CommitOperations, Committed, ReadOperations};
use gateway_store::Store;
use operation_gateway::compose::Gateway;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const N_CLIENTS: usize = 32;
const N_ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(4);

/// Events of a flow by the commits that held them, as the engine groups them.
const COMMITS: [usize; 10] = [2, 1, 2, 1, 1, 1, 2, 1, 1, 1];

pub(crate) async fn measure() -> Measured<()> {
    let folder = tempfile::tempdir()?;
    let gateway = world::open(folder.path()).await?;
    let address = serve(gateway_api::router(gateway.app.clone())).await?;
    let id = flow(&mut Client::connect(address).await?, "warm-up").await?;
    let events = gateway.store.operation_events(id).await.map_err(|why| why.to_string())?;
    let events: Arc<Vec<Event>> = Arc::new(events.into_iter().map(|(event, _)| event).collect());
    let before = Counted::of(&gateway);
    flow(&mut Client::connect(address).await?, "counted").await?;
    let one = Counted::of(&gateway).minus(&before);
    let bare = Arc::new(Store::open(&folder.path().join("bare.db").display().to_string()).await?);
    let (mut flows, mut bares, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let before = Counted::of(&gateway);
    let mut n_flows = 0.0;
    for round in 0..N_ROUNDS {
        let full = flows_per_second(address, round).await?;
        let store = bare_per_second(&bare, &events, one.jobs()).await?;
        n_flows += full * ROUND.as_secs_f64();
        flows.push(full);
        bares.push(store);
        ratios.push(full / store);
    }
    let all = Counted::of(&gateway).minus(&before);
    println!("full flows, {N_CLIENTS} clients, {N_ROUNDS} rounds in turns (medians)");
    println!("  flows            {:8.0} /s", median(&mut flows));
    println!("  bare store       {:8.0} /s, {} commits each", median(&mut bares), one.jobs());
    println!("  ratio            {:8.2}", median(&mut ratios));
    println!(
        "  a flow alone     {} commits: {} of the gateway, {} of 3 nodes; one transaction, so one sync, each",
        one.jobs(),
        one.gateway_jobs,
        one.node_jobs
    );
    println!(
        "                   {} SQL statements in {} round trips to the gateway's database",
        one.statements, one.gateway_jobs
    );
    println!(
        "  a flow of many   {:.1} transactions (each one sync of the log, checkpoints apart): group commit",
        all.transactions() / n_flows
    );
    Ok(())
}

#[derive(Clone, Copy)]
struct Counted {
    gateway_jobs: u64,
    gateway_transactions: u64,
    statements: u64,
    node_jobs: u64,
    node_transactions: u64,
}

impl Counted {
    fn of(gateway: &Gateway) -> Self {
        let store = gateway.store.counters();
        let (node_jobs, node_transactions) = gateway.fleet.counters();
        Self {
            gateway_jobs: store.jobs,
            gateway_transactions: store.transactions,
            statements: store.statements,
            node_jobs,
            node_transactions,
        }
    }

    fn minus(&self, before: &Self) -> Self {
        Self {
            gateway_jobs: self.gateway_jobs - before.gateway_jobs,
            gateway_transactions: self.gateway_transactions - before.gateway_transactions,
            statements: self.statements - before.statements,
            node_jobs: self.node_jobs - before.node_jobs,
            node_transactions: self.node_transactions - before.node_transactions,
        }
    }

    fn jobs(&self) -> u64 {
        self.gateway_jobs + self.node_jobs
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    fn transactions(&self) -> f64 {
        (self.gateway_transactions + self.node_transactions) as f64
    }
}

async fn flow(client: &mut Client, key: &str) -> Measured<OperationId> {
    let submitted = client.send(&post("/v1/operations/sign", &samples::payment(key))).await?;
    let text = std::str::from_utf8(submitted)?;
    let id =
        text.split("\"operation_id\":\"").nth(1).and_then(|rest| rest.get(..64)).ok_or("no operation id")?;
    let (id, path) = (id.parse::<OperationId>()?, format!("/v1/operations/{id}"));
    client.send(&post(&format!("{path}/approve"), &samples::approval("alice"))).await?;
    client.send(&post(&format!("{path}/approve"), &samples::approval("bob"))).await?;
    client.send(&post(&format!("{path}/execute"), "")).await?;
    let published = client.send(&post(&format!("{path}/publish"), &samples::publication())).await?;
    if !std::str::from_utf8(published)?.contains("\"state\":\"published\"") {
        return Err("the flow did not end published".into());
    }
    Ok(id)
}

async fn flows_per_second(address: SocketAddr, round: usize) -> Measured<f64> {
    let started = Instant::now();
    let clients = (0..N_CLIENTS).map(|number| {
        tokio::spawn(async move {
            let mut client = Client::connect(address).await?;
            let mut n_flows = 0_u32;
            while started.elapsed() < ROUND {
                flow(&mut client, &format!("{round}-{number}-{n_flows}")).await?;
                n_flows += 1;
            }
            Measured::Ok(n_flows)
        })
    });
    total_per_second(started, clients.collect()).await
}

async fn bare_per_second(store: &Arc<Store>, events: &Arc<Vec<Event>>, n_commits: u64) -> Measured<f64> {
    let started = Instant::now();
    let clients = (0..N_CLIENTS).map(|_| {
        let (store, events) = (Arc::clone(store), Arc::clone(events));
        tokio::spawn(async move {
            let mut n_flows = 0_u32;
            while started.elapsed() < ROUND {
                bare_flow(&store, &events, n_commits).await?;
                n_flows += 1;
            }
            Measured::Ok(n_flows)
        })
    });
    total_per_second(started, clients.collect()).await
}

async fn total_per_second(
    started: Instant,
    clients: Vec<tokio::task::JoinHandle<Measured<u32>>>,
) -> Measured<f64> {
    let mut n_flows = 0;
    for client in clients {
        n_flows += client.await??;
    }
    Ok(f64::from(n_flows) / started.elapsed().as_secs_f64())
}

/// The events of the recorded flow under an id of its own, then as many more commits as the nodes make.
async fn bare_flow(store: &Store, recorded: &[Event], n_commits: u64) -> Measured<()> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut events = recorded.to_vec();
    if let Some(Change::Submitted(submission)) = events.first_mut().map(|event| &mut event.change) {
        let mut bytes = [0; 32];
        bytes.iter_mut().zip(number.to_be_bytes()).for_each(|(byte, digit)| *byte = digit);
        submission.operation_id = OperationId(Hex32::new(bytes));
    }
    let at_ms = events.last().map(|event| event.at_ms).ok_or("no events")?;
    let more = n_commits.saturating_sub(COMMITS.len() as u64);
    let noted = Event {
        at_ms,
        change: Change::ReplayNoted { body_digest: Hex32::ZERO },
        asked_by: None,
        settles: None,
    };
    events.extend((0..more).map(|_| noted.clone()));
    let groups = COMMITS.into_iter().chain((0..more).map(|_| 1));
    let (mut end, mut previous_record_root) = (0, Hex32::ZERO);
    for n_events in groups {
        let held =
            events.get(end..end + n_events).ok_or("the flow has other commits than recorded")?.to_vec();
        end += n_events;
        let operation = replay(events.get(..end).unwrap_or_default()).ok_or("no operation")?;
        let claim = (end == n_events).then(|| number.to_string());
        let commit = Commit { operation, events: held, previous_record_root, keys: Vec::new(), claim };
        match store.commit(commit).await.map_err(|why| why.to_string())? {
            Committed::Written(record) => previous_record_root = record.record_root,
            Committed::Raced => return Err("nobody else writes here".into()),
        }
    }
    Ok(())
}
