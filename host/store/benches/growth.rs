//! Compares a SQLite store of 1,000 operations with one of 1,000,000: reads, lists and commits, and `ledger fsck`.
//! `cargo bench -p gateway-store --bench growth [-- operations of the larger store [folder]]`.
//!
//! The measurements alternate between the two stores in one process, so that other load slows both equally. Both files are read once
//! before, so that the operating system has them in memory. Each store is checked in a process of its own, which prints its peak memory.
//! `-- fill N FOLDER` only makes the stores, in a folder that a later run measures, once.

#![expect(clippy::print_stdout, reason = "a measuring tool")]

mod measured;

use gateway_domain::ids::{Hex32, KeyId, KeyRef, OperationId};
use gateway_domain::intent::{self, Family, Intent, Payment, PublicationMode};
use gateway_domain::key::transitions::{self, Keys};
use gateway_domain::operation::{
    Change, Event, Failure, KeySlot, Operation, State, Submission, evolve, open, replay,
};
use gateway_domain::policy::spending::Parties;
use gateway_domain::policy::{Input, Moment};
use gateway_domain::testing::samples::chained;
use gateway_domain::testing::samples::{self, Kind};
use gateway_domain::time::EpochMs;
use gateway_engine::Visibility;
use gateway_engine::ports::{
    Asked, Commit, CommitOperations, Committed, Created, DecisionRecord, EventId, KeyChange, KeyFilter,
    ListRecords, OperationFilter, Place, ReadLog, ReadOperations, Record,
};
use gateway_store::{Cursor, Decisions, Fsck, Store};
use measured::{LARGE, Measured, SMALL, written};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::JoinSet;

/// Commits that wait at once while a store is filled, so that one transaction has many.
const N_SEEDERS: u64 = 256;

/// Measurements of each kind on each store.
const N_ROUNDS: u64 = 1_000;

/// Of so many operations, one creates a key and has a refusal before it, one waits for approvals, one is a payment that was decided and
/// published, and the others are payments that failed.
const EVERY: u64 = 10;

/// The time between two operations, so that a day has as many payments in both stores.
const APART_MS: u64 = 60_000;

const KINDS: [&str; 20] = [
    "operation by id, from disk",
    "events of an operation",
    "submission of a replay: a conflict",
    "a new operation, synced",
    "an event of an operation, synced",
    "key, from disk",
    "page of 50 keys, for the gateway's own checks",
    "page of 50 operations",
    "page of 50 operations, from the middle",
    "page of 50 failed operations",
    "page of 50 operations that await approvals",
    "page of 50 keys, newest first",
    "keys of a name",
    "operations of a key",
    "quorums of all keys",
    "unfinished operations",
    "operations that wait for approvals",
    "spending totals",
    "page of 50 refusals",
    "head of the log, and an inclusion proof",
];

/// The place of the key's read in [`KINDS`].
const KEY_LOAD: usize = 5;

const PAYMENTS: OperationFilter = OperationFilter {
    family: Family::Product,
    state: None,
    operation_type: None,
    key_ref: None,
    idempotency_key: None,
    awaits_approvals: false,
    created: Created { after: None, before: None },
};
const KEYS: KeyFilter =
    KeyFilter { state: None, key_ref: None, created: Created { after: None, before: None } };

#[tokio::main]
async fn main() -> Measured<()> {
    let arguments = measured::arguments();
    if let [command, path] = &arguments[..]
        && command == "fsck"
    {
        return check(path).await;
    }
    let only_fills = arguments.first().is_some_and(|first| first == "fill");
    let mut arguments = arguments.into_iter().skip(usize::from(only_fills));
    let large = arguments.next().map_or(Ok(LARGE), |n| n.parse())?;
    let temporary = tempfile::tempdir()?;
    let folder = arguments.next().map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let (small_path, large_path) = (folder.join("small.db"), folder.join("large.db"));
    let mut stores = [Grown::seeded(&small_path, SMALL).await?, Grown::seeded(&large_path, large).await?];
    if only_fills {
        return Ok(());
    }
    for path in [&small_path, &large_path] {
        std::io::copy(&mut File::open(path)?, &mut std::io::sink())?;
    }
    let mut random = 7_u64;
    let mut times: Vec<[Vec<f64>; 2]> = KINDS.iter().map(|_| [Vec::new(), Vec::new()]).collect();
    for round in 0..N_ROUNDS {
        random = measured::next_random(random);
        for (which, store) in stores.iter_mut().enumerate() {
            let micros = store.measure(round, random >> 16).await?;
            for (row, micros) in times.iter_mut().zip(micros) {
                let measured = Some(micros).filter(|micros| *micros > 0.0);
                row.get_mut(which).into_iter().for_each(|column| column.extend(measured));
            }
        }
    }
    measured::print_ratios(&KINDS, &mut times, N_ROUNDS);
    for store in stores {
        store.store.close().await;
        store.decisions.close().await;
    }
    for path in [&small_path, &large_path] {
        let checked = Command::new(std::env::current_exe()?).arg("fsck").arg(path).status()?;
        if !checked.success() {
            return Err("the check failed".into());
        }
    }
    Ok(())
}

/// Runs `ledger fsck` on a store.
async fn check(path: &str) -> Measured<()> {
    let start = Instant::now();
    let (mut n_findings, mut n_reports) = (0_u64, 0_u64);
    let mut fsck = Fsck::open(path).await?;
    let checked = fsck.check_with_progress(&mut |_| n_findings += 1, &mut |_, _| n_reports += 1).await?;
    let took = start.elapsed();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown").trim();
    println!(
        "fsck of {} events of {} operations, {} keys: {:.2} s, peak memory {peak}, {n_reports} progress reports, {n_findings} findings",
        checked.n_events,
        checked.n_operations,
        checked.n_keys,
        took.as_secs_f64()
    );
    if n_findings > 0 { Err("a store without damage has findings".into()) } else { Ok(()) }
}

/// A store with operations, and a view for tools.
struct Grown {
    store: Arc<Store>,
    decisions: Decisions,
    n_operations: u64,
}

impl Grown {
    async fn seeded(path: &Path, n_operations: u64) -> Measured<Self> {
        let start = Instant::now();
        let location = path.display().to_string();
        let is_filled = path.exists();
        let store = Arc::new(Store::open(&location).await?);
        let mut seeders = JoinSet::new();
        for seeder in (0..N_SEEDERS).filter(|_| !is_filled) {
            let store = store.clone();
            seeders.spawn(async move {
                let mut number = seeder;
                while number < n_operations {
                    written(store.commit(seed(number)?).await?)?;
                    if number.is_multiple_of(EVERY) {
                        store.decision_record(refusal(number)?).await?;
                    }
                    number += N_SEEDERS;
                }
                Measured::Ok(())
            });
        }
        while let Some(seeded) = seeders.join_next().await {
            seeded??;
        }
        // Opens the store again, as after a restart, with empty caches and an empty write-ahead log.
        Arc::into_inner(store).ok_or("the store is in use")?.close().await;
        let (store, decisions) = (Arc::new(Store::open(&location).await?), Decisions::open(&location).await?);
        let (size, bytes) = (store.log_head().await?.size, std::fs::metadata(path)?.len());
        println!(
            "{n_operations} operations, {size} events, {} MB, written in {:.1} s",
            bytes / 1_000_000,
            start.elapsed().as_secs_f64()
        );
        Ok(Self { store, decisions, n_operations })
    }

    /// One measurement of each kind in microseconds, in the order of [`KINDS`]; 0 for one that was not made.
    async fn measure(&mut self, round: u64, random: u64) -> Measured<[f64; KINDS.len()]> {
        // Evenly over the store and never the same twice, so that no record is cached.
        let number = (random % (self.n_operations / N_ROUNDS)) * N_ROUNDS + round;
        let (id, replayed) = (operation_id(number)?, seed(number)?);
        // The small store has a tenth as many keys as there are rounds: each is read from disk once, and then cached.
        let (key_number, is_cached) = match round * EVERY < SMALL {
            true => (number / EVERY * EVERY - (number / EVERY * EVERY) % SMALL + round * EVERY, false),
            false => (number / EVERY * EVERY, true),
        };
        let creation = seed(key_number)?.operation;
        let (key, new) = (creation.key.clone(), seed(self.n_operations + round)?);
        let payment = payment(number)?;
        let at = EpochMs(self.n_operations * APART_MS);
        let named = |index| Some(EventId::new(index, Hex32::ZERO));
        let refusals = Cursor { event: named(u64::MAX), refusal: named(number / EVERY / 2), preview: None };
        let (store, n_leaves) = (&*self.store, self.store.log_head().await?.size);
        let mut times = [0.0; KINDS.len()];
        let mut row = times.iter_mut();
        macro_rules! time {
            ($call:expr) => {{
                let start = Instant::now();
                let answer = $call.await?;
                *row.next().ok_or("more measurements than names")? = start.elapsed().as_secs_f64() * 1e6;
                answer
            }};
        }
        let found = time!(store.operation_find(id, &Visibility::Everything)).ok_or("no operation")?;
        expect(time!(store.operation_events(id)).len() >= 2)?;
        expect(matches!(time!(store.commit(replayed)), Committed::Conflict))?;
        written(time!(store.commit(new)))?;
        written(time!(store.commit(following(&found))))?;
        time!(store.key_load(key.key_id)).ok_or("no key")?;
        expect(time!(store.keys_after(Some(KeyId(Hex32::ZERO)), 50)).len() == 50)?;
        let tenant = &Visibility::Tenant(creation.tenant.clone());
        let middle = Place { created_at: EpochMs(self.n_operations / 2 * APART_MS), id: Hex32::ZERO };
        let failed = OperationFilter { state: Some(State::Failed), ..PAYMENTS };
        let awaited = OperationFilter { awaits_approvals: true, ..PAYMENTS };
        expect(time!(store.operations_listed(tenant, &PAYMENTS, None, 50)).places.len() == 50)?;
        expect(time!(store.operations_listed(tenant, &PAYMENTS, Some(middle), 50)).places.len() == 50)?;
        expect(time!(store.operations_listed(tenant, &failed, None, 50)).places.len() == 50)?;
        expect(time!(store.operations_listed(tenant, &awaited, None, 50)).places.len() == 50)?;
        expect(time!(store.keys_listed(tenant, &KEYS, None, 50)).places.len() == 50)?;
        expect(time!(store.keys_named(&key.key_ref, 2)).len() == 1)?;
        expect(time!(store.key_operations(key.key_id, None, 100)).len() == 1)?;
        time!(store.key_quorums(100));
        time!(store.unfinished());
        expect(!time!(store.operations_overdue(EpochMs(u64::MAX), EpochMs(0), at, 50)).is_empty())?;
        let parties = Parties::of(&creation.tenant, &creation.submitter, key.key_id, &payment);
        time!(store.spending_totals(&parties, at));
        expect(!time!(self.decisions.page(refusals, 50)).is_empty())?;
        time!(async { store.log_inclusion(random % n_leaves, store.log_head().await?.size).await });
        if is_cached && let Some(key_load) = times.get_mut(KEY_LOAD) {
            *key_load = 0.0;
        }
        Ok(times)
    }
}

fn expect(is_right: bool) -> Measured<()> {
    if is_right { Ok(()) } else { Err("an answer is not the expected one".into()) }
}

fn claim(number: u64) -> String {
    format!("claim-{number}")
}

/// The key that the operation creates. Payments name a key that does not exist, since a first decision would change it.
fn key_ref(number: u64) -> KeyRef {
    if number.is_multiple_of(EVERY) { KeyRef(format!("key-{number}")) } else { KeyRef("unknown".to_owned()) }
}

fn payment(number: u64) -> Measured<Payment> {
    let Intent::Payment(payment) = samples::intent(Kind::Payment, PublicationMode::Manual) else {
        return Err("the sample is not a payment".into());
    };
    Ok(Payment { from_account: format!("account-{}", number % 50), amount_minor: 1, ..payment })
}

fn submission(number: u64) -> Measured<Submission> {
    let intent = match number % EVERY {
        0 => samples::intent(Kind::KeyCreate, PublicationMode::Manual),
        _ => Intent::Payment(payment(number)?),
    };
    let key_ref = key_ref(number);
    let mut submission = samples::submission(intent, 1);
    submission.key = KeySlot { key_id: intent::key_id(&submission.tenant, &key_ref)?, key_ref };
    submission.operation_id = operation_id(number)?;
    Ok(submission)
}

fn operation_id(number: u64) -> Measured<OperationId> {
    let tenant = samples::submission(samples::intent(Kind::KeyCreate, PublicationMode::Manual), 1).tenant;
    let family = if number.is_multiple_of(EVERY) { Family::Custody } else { Family::Product };
    Ok(intent::operation_id(&tenant, family, Some(&key_ref(number)), &claim(number))?)
}

/// The commit with all events of an operation.
fn seed(number: u64) -> Measured<Commit> {
    let at = EpochMs(number * APART_MS);
    let mut events = open(submission(number)?, at);
    let event = |change| Event { at_ms: at, change, requested_by: None, settles: None };
    if number % EVERY > 1 {
        let ends = match number % EVERY {
            2 => golden(|change| matches!(change, Change::DecisionSigned { .. } | Change::Published { .. }))?,
            _ => vec![failed()],
        };
        events.extend(ends.into_iter().map(event));
    }
    let operation = replay(&events).ok_or("events do not begin with a submission")?;
    let claim = Some(claim(number));
    let mut keys = Vec::new();
    if number.is_multiple_of(EVERY) {
        let keys_after = |keys, event: &Event| transitions::after(keys, &operation, event);
        let after = events.iter().fold(Keys { subject: None, successor: None }, keys_after);
        keys.extend(after.subject.map(|key| KeyChange { key, revision_before: None }));
    }
    let events = chained(Hex32::ZERO, events);
    let operation = Arc::new(operation);
    Ok(Commit { operation, events, previous_record_root: Hex32::ZERO, keys, claim, spending: None })
}

fn failed() -> Change {
    let failure = Failure { code: "approval_expired".into(), detail: String::new(), culprits: vec![] };
    Change::Failed { failure, policy: None, receipts: vec![] }
}

/// Some of the changes of the golden history.
fn golden(wanted: fn(&Change) -> bool) -> Measured<Vec<Change>> {
    let events: Vec<Event> = serde_json::from_str(include_str!("../../domain/golden/events.json"))?;
    Ok(events.into_iter().map(|event| event.change).filter(wanted).collect())
}

fn following(record: &Record) -> Commit {
    let change = Change::ReplayNoted { body_digest: Hex32::ZERO };
    let event = Event { at_ms: EpochMs(1 << 40), change, requested_by: None, settles: None };
    Commit {
        operation: Arc::new(evolve(Operation::clone(&record.operation), &event)),
        events: chained(record.record_root, [event]),
        previous_record_root: record.record_root,
        keys: Vec::new(),
        claim: None,
        spending: None,
    }
}

fn refusal(number: u64) -> Measured<DecisionRecord> {
    let submission = submission(number)?;
    let Submission { tenant, submitter, intent_hash, intent, key, operation_id, policy, .. } = submission;
    let (moment, key_ref, approvals) = (Moment::Submit, key.key_ref, Vec::new());
    let input = Input { moment, intent_hash, tenant, key_ref, submitter, intent, approvals };
    Ok(DecisionRecord {
        at_ms: EpochMs(number * APART_MS),
        operation_id,
        asked: Asked::default(),
        input,
        outcome: policy,
    })
}
