//! Full flows over HTTP (submit, two approvals, execute, publish) with durable commits, compared with bare stores that only make
//! as many commits: of the events of a real flow for the gateway, and of minimal events for the nodes. The bare stores write
//! either to four files, as a flow does, or all to one file.

use crate::http::{Client, post, post_nothing};
use crate::preview::serve;
use crate::{Measured, http, median, world};
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::operation::{Change, Event, replay};
use gateway_domain::testing::requests::{payment, publication};
use gateway_domain::testing::samples::chained;
use gateway_engine::ports::{Commit, CommitOperations, Committed, ReadOperations};
use gateway_store::Store;
use operation_gateway::OpenFleet;
use operation_gateway::compose::Gateway;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const N_CLIENTS: usize = 32;
const N_ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(4);

/// The commits of a flow, in its order.
#[derive(Clone, Copy)]
enum Durable {
    /// This number of events of the recorded flow, in one commit of the gateway.
    Events(usize),
    /// One commit on each of two or three nodes, concurrently.
    Nodes(usize),
}

/// A flow as the engine drives it: submission, approvals, admission, receipt, execution, publication.
const FLOW: [Durable; 11] = {
    use Durable::{Events, Nodes};
    [
        Events(2),
        Events(1),
        Events(3),
        Nodes(3),
        Events(1),
        Events(1),
        Nodes(3),
        Nodes(2),
        Events(3),
        Nodes(3),
        Events(2),
    ]
};

const N_COMMITS: u64 = 7 + 11;

pub(crate) async fn measure() -> Measured<()> {
    let folder = tempfile::tempdir()?;
    let gateway = world::open(folder.path()).await?;
    let address = serve(gateway_api::router(gateway.app.clone())).await?;
    let id = flow(&mut Client::connect(address).await?, "warm-up").await?;
    let events = gateway.store.operation_events(id).await.map_err(|why| why.to_string())?;
    let events: Arc<Vec<Event>> = Arc::new(events.into_iter().map(|chained| chained.event).collect());
    let before = Counts::read(&gateway);
    flow(&mut Client::connect(address).await?, "counted").await?;
    let one = Counts::read(&gateway).minus(&before);
    if one.jobs() != N_COMMITS {
        return Err(format!("a flow makes {} commits, and the bare store {N_COMMITS}", one.jobs()).into());
    }
    let four = BareStores::open(folder.path(), &["gateway", "node-0", "node-1", "node-2"]).await?;
    let single = BareStores::open(folder.path(), &["single"]).await?;
    let mut measured: [Vec<f64>; 7] = Default::default();
    let before = Counts::read(&gateway);
    let mut n_flows = 0.0;
    for round in 0..N_ROUNDS {
        let spent = Spent::so_far()?;
        let full = flows_per_second(address, round).await?;
        let spent = Spent::so_far()?.since(&spent);
        let (four, single) = (four.per_second(&events).await?, single.per_second(&events).await?);
        let n_round = full * ROUND.as_secs_f64();
        n_flows += n_round;
        let of_flow = [spent.processor_ms / n_round, spent.n_switches / n_round];
        for (series, value) in measured
            .iter_mut()
            .zip([full, four, single, full / four, full / single].into_iter().chain(of_flow))
        {
            series.push(value);
        }
    }
    let all = Counts::read(&gateway).minus(&before);
    let [full, four, single, of_four, of_single, processor_ms, n_switches] =
        measured.each_mut().map(|series| median(series));
    println!("full flows, {N_CLIENTS} clients, {N_ROUNDS} rounds in turns (medians)");
    println!("  flows                        {full:8.0} /s");
    println!(
        "  one of many, with its client {processor_ms:8.2} ms of processor time, {n_switches:.0} context switches"
    );
    println!("  bare store, the same files   {four:8.0} /s, {N_COMMITS} commits each");
    println!("  bare store, one file         {single:8.0} /s, {N_COMMITS} commits each");
    println!("  ratio, the same files        {of_four:8.2}");
    println!("  ratio, one file              {of_single:8.2}");
    println!(
        "  a flow alone     {} commits: {} of the gateway, {} of 3 nodes; each is one transaction and one sync",
        one.jobs(),
        one.gateway_jobs,
        one.node_jobs
    );
    println!(
        "                   {} SQL statements in {} round trips to the gateway's database",
        one.statements, one.gateway_jobs
    );
    println!(
        "  one of many      {:.1} transactions, each with one sync of the log, without checkpoints (group commit)",
        all.transactions() / n_flows
    );
    Ok(())
}

/// What this process has cost, the client in it too.
struct Spent {
    processor_ms: f64,
    n_switches: f64,
}

impl Spent {
    /// Without the threads that have ended.
    fn so_far() -> Measured<Self> {
        let mut spent = Self { processor_ms: 0.0, n_switches: 0.0 };
        for thread in std::fs::read_dir("/proc/self/task")? {
            let thread = thread?.path();
            let nanoseconds: f64 = std::fs::read_to_string(thread.join("schedstat"))?
                .split_whitespace()
                .next()
                .ok_or("no processor time")?
                .parse()?;
            spent.processor_ms += nanoseconds / 1e6;
            for line in std::fs::read_to_string(thread.join("status"))?.lines() {
                if let Some((_, switches)) = line.split_once("voluntary_ctxt_switches:") {
                    spent.n_switches += switches.trim().parse::<f64>()?;
                }
            }
        }
        Ok(spent)
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            processor_ms: self.processor_ms - before.processor_ms,
            n_switches: self.n_switches - before.n_switches,
        }
    }
}

/// Flows alone, without the stores that they are compared with.
pub(crate) async fn load() -> Measured<()> {
    let folder = tempfile::tempdir()?;
    let gateway = world::open(folder.path()).await?;
    let address = serve(gateway_api::router(gateway.app.clone())).await?;
    for round in 0..N_ROUNDS {
        println!("{:.0} flows/s", flows_per_second(address, round).await?);
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Counts {
    gateway_jobs: u64,
    gateway_transactions: u64,
    statements: u64,
    node_jobs: u64,
    node_transactions: u64,
}

impl Counts {
    fn read(gateway: &Gateway) -> Self {
        let store = gateway.store.counters();
        let (node_jobs, node_transactions) = match &gateway.fleet {
            OpenFleet::Embedded(fleet) => fleet.counters(),
            OpenFleet::Remote(_) => (0, 0),
        };
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
    let operations = "/v1/operations";
    let sign = "/v1/operations/sign";
    let id = http::submit_and_approve(client, sign, &payment(key), operations).await?;
    let path = format!("{operations}/{id}");
    client.send(&post_nothing(&format!("{path}/execute"))).await?;
    let published = client.send(&post(&format!("{path}/publish"), &publication())).await?;
    if !std::str::from_utf8(published)?.contains("\"state\":\"published\"") {
        return Err("the flow did not end published".into());
    }
    Ok(id.parse()?)
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

/// The sum of the clients' counts, by the time since `started`.
pub(crate) async fn total_per_second(
    started: Instant,
    clients: Vec<tokio::task::JoinHandle<Measured<u32>>>,
) -> Measured<f64> {
    let mut total = 0;
    for client in clients {
        total += client.await??;
    }
    Ok(f64::from(total) / started.elapsed().as_secs_f64())
}

/// Stores that only commit: the gateway's and those of three nodes, or one for all.
#[derive(Clone)]
struct BareStores(Arc<Vec<Store>>);

impl BareStores {
    async fn open(folder: &Path, names: &[&str]) -> Measured<Self> {
        let mut stores = Vec::new();
        for name in names {
            stores.push(Store::open(&folder.join(format!("bare-{name}.db")).display().to_string()).await?);
        }
        Ok(Self(Arc::new(stores)))
    }

    fn node(&self, node: usize) -> Measured<&Store> {
        Ok(self.0.get(node + 1).or_else(|| self.0.first()).ok_or("no store")?)
    }

    async fn per_second(&self, events: &Arc<Vec<Event>>) -> Measured<f64> {
        let started = Instant::now();
        let clients = (0..N_CLIENTS).map(|_| {
            let (bare, events) = (self.clone(), Arc::clone(events));
            tokio::spawn(async move {
                let mut n_flows = 0_u32;
                while started.elapsed() < ROUND {
                    bare.flow(&events).await?;
                    n_flows += 1;
                }
                Measured::Ok(n_flows)
            })
        });
        total_per_second(started, clients.collect()).await
    }

    /// Makes the commits of one flow, under a new operation id.
    async fn flow(&self, recorded: &[Event]) -> Measured<()> {
        let mut gateway = Recording::new(recorded)?;
        let mut nodes = [Recording::new(recorded)?, Recording::new(recorded)?, Recording::new(recorded)?];
        for durable in FLOW {
            match durable {
                Durable::Events(n_events) => {
                    let store = self.0.first().ok_or("no store")?;
                    gateway.commit(store, n_events).await?;
                }
                Durable::Nodes(n_nodes) => {
                    let [first, second, third] = &mut nodes;
                    let third = async {
                        if n_nodes > 2 { third.commit_as_node(self.node(2)?).await } else { Ok(()) }
                    };
                    tokio::try_join!(
                        first.commit_as_node(self.node(0)?),
                        second.commit_as_node(self.node(1)?),
                        third
                    )?;
                }
            }
        }
        Ok(())
    }
}

/// The commits of one operation to one store.
struct Recording {
    recorded: Vec<Event>,
    committed: Vec<Event>,
    claim: String,
    record_root: Hex32,
}

impl Recording {
    fn new(recorded: &[Event]) -> Measured<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut recorded = recorded.to_vec();
        let Some(Change::Submitted(submission)) = recorded.first_mut().map(|event| &mut event.change) else {
            return Err("a flow begins with its submission".into());
        };
        let mut bytes = [0; 32];
        bytes.iter_mut().zip(number.to_be_bytes()).for_each(|(byte, digit)| *byte = digit);
        submission.operation_id = OperationId(Hex32::new(bytes));
        Ok(Self { recorded, committed: Vec::new(), claim: number.to_string(), record_root: Hex32::ZERO })
    }

    /// Commits the next events of the recorded flow.
    async fn commit(&mut self, store: &Store, n_events: usize) -> Measured<()> {
        let start = self.committed.len();
        let events = self.recorded.get(start..start + n_events).ok_or("other commits than recorded")?;
        self.write(store, events.to_vec()).await
    }

    /// Commits as a node: the operation's first events at its first step, a minimal event at the others.
    async fn commit_as_node(&mut self, store: &Store) -> Measured<()> {
        if self.committed.is_empty() {
            return self.commit(store, 2).await;
        }
        let at_ms = self.committed.last().map(|event| event.at_ms).ok_or("no events")?;
        let change = Change::ReplayNoted { body_digest: Hex32::ZERO };
        self.write(store, vec![Event { at_ms, change, requested_by: None, settles: None }]).await
    }

    async fn write(&mut self, store: &Store, events: Vec<Event>) -> Measured<()> {
        let claim = self.committed.is_empty().then(|| self.claim.clone());
        self.committed.extend(events.iter().cloned());
        let commit = Commit {
            operation: Arc::new(replay(&self.committed).ok_or("no operation")?),
            events: chained(self.record_root, events),
            previous_record_root: self.record_root,
            keys: Vec::new(),
            claim,
            spending: None,
        };
        match store.commit(commit).await.map_err(|why| why.to_string())? {
            Committed::Written(record) => self.record_root = record.record_root,
            Committed::Conflict => return Err("another writer committed".into()),
        }
        Ok(())
    }
}
