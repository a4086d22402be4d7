//! Measures a small and a large log of all events: `cargo bench -p gateway-store --bench log [-- events of the larger
//! log]`. The measurements alternate between the two in one process, so that other load slows both equally.
//!
//! `-- commits LOCATION...` instead measures how many commits a second each database makes: a file, or the URL of an empty PostgreSQL
//! database.
//!
//! Both logs are in a store and have the same number of operations. The operations of the larger log have more
//! events. To write a million of them quickly, a commit has many.

#![expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "a measuring tool")]

mod measured;

use gateway_domain::binding::{ClientBinding, CredentialDigest};
use gateway_domain::canonical::digest_bytes;
use gateway_domain::ids::{Hex32, OperationId, Tenant};
use gateway_domain::operation::{Change, Event, Operation, Requester, Submission, evolve, open, replay};
use gateway_domain::testing::samples::chained;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{Commit, CommitOperations, ReadLog, Record};
use gateway_store::Store;
use measured::{LARGE, Measured, SMALL, written};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Operations of each log. An append goes to a random one, and so to a random part of the tables.
const N_OPERATIONS: u64 = 500;

/// Measurements of each kind on each log.
const N_ROUNDS: u64 = 2_000;

/// Clients that commit at the same time.
const CLIENTS: [u64; 3] = [1, 32, 256];

const COMMITS_FOR: Duration = Duration::from_secs(5);

const KINDS: [&str; 5] = [
    "append: a commit of one event, synced",
    "head",
    "inclusion in the head",
    "inclusion in a log of half the size",
    "consistency with the head",
];

#[tokio::main]
async fn main() -> Measured<()> {
    let arguments = measured::arguments();
    if let [command, locations @ ..] = &arguments[..]
        && command == "commits"
    {
        for location in locations {
            commits(location).await?;
        }
        return Ok(());
    }
    let large = arguments.first().map_or(Ok(LARGE), |n| n.parse())?;
    let folder = tempfile::tempdir()?;
    let mut logs = [
        Log::seeded(&folder.path().join("small.db"), SMALL).await?,
        Log::seeded(&folder.path().join("large.db"), large).await?,
    ];
    let mut random = 7_u64;
    let mut times: Vec<[Vec<f64>; 2]> = KINDS.iter().map(|_| [Vec::new(), Vec::new()]).collect();
    for _ in 0..N_ROUNDS {
        random = measured::next_random(random);
        for (which, log) in logs.iter_mut().enumerate() {
            let micros = log.measure(random >> 16).await?;
            for (row, micros) in times.iter_mut().zip(micros) {
                row.get_mut(which).into_iter().for_each(|column| column.push(micros));
            }
        }
    }
    measured::print_ratios(&KINDS, &mut times, N_ROUNDS);
    Ok(())
}

/// Prints the commits of one event a second, by numbers of clients, each with an operation of its own.
async fn commits(location: &str) -> Measured<()> {
    let store = Arc::new(Store::open(location).await?);
    let mut number = 0;
    for n_clients in CLIENTS {
        let before = store.counters();
        let start = Instant::now();
        let mut clients = JoinSet::new();
        for _ in 0..n_clients {
            number += 1;
            let (store, mut record) = (store.clone(), written(store.commit(seed(number, 2)?).await?)?);
            clients.spawn(async move {
                let mut n_commits = 0_u64;
                while start.elapsed() < COMMITS_FOR {
                    record = written(store.commit(appending(&record, n_commits)).await?)?;
                    n_commits += 1;
                }
                Measured::Ok(n_commits)
            });
        }
        let mut n_commits = 0;
        while let Some(done) = clients.join_next().await {
            n_commits += done??;
        }
        let seconds = start.elapsed().as_secs_f64();
        let after = store.counters();
        let per_transaction =
            (after.jobs - before.jobs) as f64 / (after.transactions - before.transactions) as f64;
        println!(
            "{n_clients} clients: {:.0} commits/s, {per_transaction:.1} in a transaction",
            n_commits as f64 / seconds
        );
    }
    store.close().await;
    Ok(())
}

struct Log {
    store: Store,
    size: u64,
    records: Vec<Record>,
}

impl Log {
    async fn seeded(path: &Path, size: u64) -> Measured<Self> {
        let start = Instant::now();
        let store = Store::open(&path.display().to_string()).await?;
        let mut records = Vec::new();
        for number in 0..N_OPERATIONS {
            records.push(written(store.commit(seed(number, size / N_OPERATIONS)?).await?)?);
        }
        // Opens the store again, as after a restart, with an empty write-ahead log.
        store.close().await;
        let store = Store::open(&path.display().to_string()).await?;
        let size = store.log_head().await?.size;
        println!("{size} events written in {:.1} s", start.elapsed().as_secs_f64());
        Ok(Self { store, size, records })
    }

    /// One measurement of each kind in microseconds, in the order of [`KINDS`].
    async fn measure(&mut self, random: u64) -> Measured<[f64; KINDS.len()]> {
        let (index, half, size) = (random % (self.size / 2), self.size / 2, self.size);
        let append = self.append(random).await?;
        let start = Instant::now();
        self.store.log_head().await?;
        let head = start.elapsed();
        let start = Instant::now();
        self.store.log_inclusion(index, size).await?.ok_or("no proof")?;
        let inclusion = start.elapsed();
        let start = Instant::now();
        self.store.log_inclusion(index, half).await?.ok_or("no proof")?;
        let past = start.elapsed();
        let start = Instant::now();
        self.store.log_consistency(index + 1, size).await?.ok_or("no proof")?;
        let consistency = start.elapsed();
        let [head, inclusion, past, consistency] =
            [head, inclusion, past, consistency].map(|elapsed| elapsed.as_secs_f64() * 1e6);
        Ok([append, head, inclusion, past, consistency])
    }

    async fn append(&mut self, random: u64) -> Measured<f64> {
        let at = usize::try_from(random % N_OPERATIONS)?;
        let record = self.records.get_mut(at).ok_or("no operation")?;
        let commit = appending(record, self.size);
        let start = Instant::now();
        let committed = self.store.commit(commit).await?;
        let elapsed = start.elapsed();
        *record = written(committed)?;
        self.size += 1;
        Ok(elapsed.as_secs_f64() * 1e6)
    }
}

/// The commit that adds one event to an operation.
fn appending(record: &Record, number: u64) -> Commit {
    let event = filler(number);
    Commit {
        operation: Arc::new(evolve(Operation::clone(&record.operation), &event)),
        events: chained(record.record_root, [event]),
        previous_record_root: record.record_root,
        keys: Vec::new(),
        claim: None,
        spending: None,
    }
}

/// The commit that creates an operation with `n_events` events, at least the two of its submission.
fn seed(number: u64, n_events: u64) -> Measured<Commit> {
    let golden: Vec<Event> = serde_json::from_str(include_str!("../../domain/golden/events.json"))?;
    let Some(Change::Submitted(submission)) = golden.into_iter().next().map(|event| event.change) else {
        return Err("the golden events do not begin with a submission".into());
    };
    let id = OperationId(digest_bytes("bench", &number.to_be_bytes()));
    let mut events = open(Submission { operation_id: id, ..*submission }, EpochMs(1));
    events.extend((events.len() as u64..n_events).map(filler));
    let operation = replay(&events).ok_or("events do not begin with a submission")?;
    let claim = Some(id.to_string());
    Ok(Commit {
        operation: Arc::new(operation),
        events: chained(Hex32::ZERO, events),
        previous_record_root: Hex32::ZERO,
        keys: Vec::new(),
        claim,
        spending: None,
    })
}

/// An event of typical size that adds nothing to its operation, so that the operation's row does not grow.
fn filler(number: u64) -> Event {
    let client = ClientBinding {
        client_id: "treasury-desk".into(),
        subject_id: "carol".into(),
        roles: vec!["operator".into()],
        registered: None,
        scopes: vec!["operations.sign".into()],
        cert_sha256: Some(CredentialDigest::of(Hex32::ZERO, "certificate")),
        token_jti: None,
        tenant: Some(Tenant("default".into())),
    };
    Event {
        at_ms: EpochMs(number),
        change: Change::ApprovalRequested { required: 2 },
        requested_by: Some(Requester { client: Some(client), unknown_fields: Vec::new() }),
        settles: None,
    }
}
