//! Several stores on one database, as replicas have it.

use super::{Scratch, findings};
use crate::change::Change;
use crate::contract::Deployment;
use crate::contract::samples::{
    decision, decision_signed, following, id, key_create, note, on_key, opening, opening_payment, preview,
    refresh, submission, written,
};
use crate::contract::webhooks::{ONE, OTHER, claim};
use crate::postgres::Postgres;
use crate::sql::connection::Connection;
use crate::store::probe;
use crate::{Peers, Presence, Store};
use gateway_domain::ids::Hex32;
use gateway_domain::policy::Moment;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{CommitOperations, Committed, ReadLog, ReadOperations, Record};
use sqlx::Executor as _;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

async fn replicas(scratch: &Scratch, n: usize) -> Vec<Arc<Store>> {
    let mut stores = Vec::new();
    for _ in 0..n {
        stores.push(scratch.open().await);
    }
    stores
}

/// Commits a note, again after each conflict.
async fn note_until_written(store: &Store, byte: u8) -> Record {
    loop {
        let record = store.operation_load(id(1)).await.unwrap().unwrap();
        if let Committed::Written(record) =
            store.commit(following(&record, EpochMs(2), vec![note(byte)])).await.unwrap()
        {
            return *record;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_append_to_one_log_and_each_revision_once() {
    const ROUNDS: u8 = 20;
    let scratch = Scratch::new();
    let stores = replicas(&scratch, 3).await;
    written(&stores[0], opening_payment(1)).await;
    let mut tasks = Vec::new();
    for (replica, store) in (0_u8..).zip(&stores) {
        let store = Arc::clone(store);
        tasks.push(tokio::spawn(async move {
            let mut revisions = Vec::new();
            for round in 0..ROUNDS {
                revisions.push(note_until_written(&store, round).await.operation.revision);
                written(&store, opening_payment(100 + replica * ROUNDS + round)).await;
                store.decision_record(decision(round, Moment::Submit)).await.unwrap();
                store.preview_record(preview(EpochMs(3)), 10).await.unwrap();
            }
            revisions
        }));
    }
    let mut revisions = BTreeSet::new();
    for task in tasks {
        let of_replica = task.await.unwrap();
        assert!(of_replica.is_sorted(), "a replica sees what it wrote: {of_replica:?}");
        revisions.extend(of_replica);
    }
    let n_notes = 3 * u64::from(ROUNDS);
    assert_eq!(revisions, (3..3 + n_notes).collect(), "two replicas wrote one revision");
    let mut heads = Vec::new();
    for store in &stores {
        heads.push(store.log_head().await.unwrap());
    }
    assert_eq!(heads[0].size, 2 + n_notes + 2 * n_notes);
    assert!(heads.iter().all(|head| *head == heads[0]));
    assert_eq!(findings(&scratch).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn record_that_another_replica_changed_is_read_again() {
    let scratch = Scratch::new();
    let stores = replicas(&scratch, 2).await;
    let key_id = submission(1, key_create()).key.key_id;
    assert_eq!(stores[1].key_load(key_id).await, Ok(None));
    let created = written(&stores[0], on_key(opening(submission(1, key_create()), EpochMs(1)), None)).await;
    for store in &stores {
        assert_eq!(store.operation_load(id(1)).await, Ok(Some(created.clone())));
    }
    let key = stores[1].key_load(key_id).await.unwrap().unwrap();
    let noted = written(&stores[1], following(&created, EpochMs(2), vec![note(1)])).await;
    assert_eq!(stores[0].operation_load(id(1)).await, Ok(Some(noted)));
    assert_eq!(stores[0].key_load(key_id).await, Ok(Some(key)));
    written(&stores[0], opening(submission(2, refresh()), EpochMs(3))).await;
    assert_eq!(stores[1].log_head().await, stores[0].log_head().await);
}

/// A replica whose connections the server ended, as in a failover, goes on with new ones. A change that had not begun is written.
#[tokio::test(flavor = "multi_thread")]
async fn ended_connections_are_replaced_and_queued_changes_written() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    let record = written(&store, opening_payment(1)).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    scratch.connection().await.execute(end).await.unwrap();
    let noted = written(&store, following(&record, EpochMs(2), vec![note(1)])).await;
    assert_eq!(store.operation_load(id(1)).await, Ok(Some(noted)));
    assert_eq!(store.ping().await, Ok(()));
}

/// A replica that is cut off while it holds the end of the log does not stop the others for longer than the server waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn session_that_keeps_the_log_locked_delays_others_for_seconds_only() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    let mut cut_off = scratch.connection().await;
    cut_off.execute("SET idle_in_transaction_session_timeout = '300ms'").await.unwrap();
    cut_off.execute("BEGIN; SELECT 1 FROM ledger_head FOR UPDATE").await.unwrap();
    written(&store, opening_payment(1)).await;
    assert!(cut_off.execute("COMMIT").await.is_err(), "its session was ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn log_that_is_locked_for_too_long_is_an_error_and_nothing_is_written() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    let mut other = scratch.connection().await;
    other.execute("BEGIN; SELECT 1 FROM ledger_head FOR UPDATE").await.unwrap();
    let refused = store.commit(opening_payment(1)).await.unwrap_err();
    assert!(refused.detail.contains("could not be written"), "{refused}");
    other.execute("ROLLBACK").await.unwrap();
    assert_eq!(store.operation_load(id(1)).await, Ok(None));
    written(&store, opening_payment(1)).await;
}

/// The database was replaced by an older copy under a running replica: it continues the log that is there, not the one that it
/// remembers.
#[tokio::test(flavor = "multi_thread")]
async fn log_of_a_restored_copy_is_read_anew() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    written(&store, opening_payment(1)).await;
    written(&store, opening_payment(2)).await;
    let delete = "DELETE FROM idempotency_claims; DELETE FROM events; DELETE FROM operations; DELETE FROM ledger_nodes;
        UPDATE ledger_head SET n_leaves = 0, root = sha256('')";
    scratch.tamper(delete).await;
    written(&store, opening_payment(3)).await;
    assert_eq!(store.operation_load(id(1)).await, Ok(None), "not from the cache");
    assert_eq!(findings(&scratch).await, []);
}

/// Runs one of PostgreSQL's own programs.
fn run(name: &str, arguments: &[&str]) {
    let find = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/postgres");
    let folder = Command::new(find).arg("find").output().unwrap().stdout;
    let program = Path::new(String::from_utf8(folder).unwrap().trim()).join(name);
    let out = Command::new(program).args(arguments).output().unwrap();
    assert!(out.status.success(), "{name}: {}", String::from_utf8_lossy(&out.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn dump_is_restored_while_replicas_write() {
    let (scratch, restored) = (Scratch::new(), Scratch::new());
    let store = scratch.open().await;
    let before = written(&store, opening_payment(1)).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let to = format!("--file={}", file.path().display());
    run("pg_dump", &["--format=custom", &to, &scratch.url()]);
    written(&store, following(&before, EpochMs(2_000), vec![note(1)])).await;
    let from = file.path().to_str().unwrap();
    run("pg_restore", &["--exit-on-error", "--no-owner", "--dbname", &restored.url(), from]);
    assert_eq!(findings(&restored).await, []);
    let copy = restored.open().await;
    assert_eq!(copy.operation_load(id(1)).await.unwrap().unwrap().record_root, before.record_root);
    written(&copy, following(&before, EpochMs(3_000), vec![note(2)])).await;
    assert_eq!(findings(&restored).await, []);
}

/// The sample's time is long ago, so no request drives it any more.
#[tokio::test(flavor = "multi_thread")]
async fn work_is_given_to_one_replica_until_it_dies() {
    let scratch = Scratch::new();
    let stores = replicas(&scratch, 3).await;
    let mut records = Vec::new();
    for byte in 1..=9 {
        let record = written(&stores[0], opening_payment(byte)).await;
        let signed = following(&record, EpochMs(u64::from(byte)), vec![decision_signed()]);
        records.push(written(&stores[0], signed).await);
    }
    let take = async |replica: usize, n_max| {
        stores[replica].operations_owing(EpochMs(0), n_max, n_max).await.unwrap()
    };
    // At the same time, replicas may get fewer, but never the same.
    let (one, two, three) = tokio::join!(take(0, 3), take(1, 3), take(2, 3));
    let n_taken = one.len() + two.len() + three.len();
    let taken: BTreeSet<_> = [&one[..], &two, &three].concat().into_iter().map(|due| due.id).collect();
    assert!(one.len() == 3 || two.len() == 3 || three.len() == 3, "{one:?} {two:?} {three:?}");
    assert_eq!(taken.len(), n_taken, "each operation has one replica");
    scratch.tamper("UPDATE operations SET due_ms = 0").await;
    let (one, two, three) = (take(0, 3).await, take(1, 3).await, take(2, 9).await);
    assert_eq!((one.len(), two.len(), three.len()), (3, 3, 3));
    assert_eq!((take(0, 9).await, take(1, 9).await), (vec![], vec![]), "all are taken");
    for record in &records {
        written(&stores[0], following(record, EpochMs(20), vec![note(1)])).await;
    }
    assert_eq!(take(1, 9).await, vec![], "and stay so while their replica drives them");
    scratch.tamper("UPDATE operations SET due_ms = extract(epoch FROM now()) * 1000 - 1").await;
    assert_eq!(take(1, 9).await.len(), 9, "others continue once they have expired");
    assert_eq!(take(0, 9).await, []);
    // A statement that began earlier meets the rows of one that began later and was faster.
    scratch.tamper("UPDATE operations SET due_ms = extract(epoch FROM now()) * 1000 + 61000").await;
    assert_eq!(take(0, 9).await, [], "they were taken a moment ago");
    scratch.tamper("UPDATE operations SET due_ms = 9223372036854775807").await;
    assert_eq!(take(0, 9).await.len(), 9, "a time beyond a replica's turn means nothing");
    scratch.tamper("UPDATE operations SET due_ms = 0").await;
    let recent = "UPDATE operations SET updated_at_ms = extract(epoch FROM now()) * 1000";
    scratch.tamper(recent).await;
    assert_eq!(take(1, 9).await, [], "a request drives what has just changed");
}

struct Panics;

impl Change for Panics {
    type Output = ();

    async fn run<C: Connection>(&self, conn: &mut C) -> Result<(), sqlx::Error> {
        conn.rows("INSERT INTO write_probe (id, at_ms) VALUES (1, 7)", &[]).await?;
        panic!("a test");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn change_that_panics_writes_nothing_and_the_others_are_written() {
    let scratch = Scratch::new();
    let postgres = Postgres::open(&scratch.url(), crate::CONNECTIONS).await.unwrap();
    let rows = || sqlx::query_as::<_, (i64, i64)>("SELECT id, at_ms FROM write_probe");
    let (panicked, probed) =
        tokio::join!(postgres.write(Panics, "it panics"), postgres.write(probe(EpochMs(8)), "it fails"));
    assert!(panicked.is_err());
    assert!(probed.is_ok());
    assert_eq!(rows().fetch_all(&mut scratch.connection().await).await.unwrap(), [(1, 8)]);
}

async fn meet(store: &Store, presence: &Presence) -> Peers {
    let mut met = None;
    let see = |peers: &Peers| {
        met = Some(peers.clone());
        true
    };
    store.meet(presence, see).await.unwrap();
    met.unwrap()
}

fn presence(key: &str, policy: Option<u8>) -> Presence {
    let policy = policy.map(|byte| Hex32::new([byte; 32]));
    Presence { identity: [("log_key".to_owned(), key.to_owned())].into(), policy }
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_meet_and_the_earlier_one_is_known() {
    let scratch = Scratch::new();
    let stores = replicas(&scratch, 2).await;
    let (one, two) = (presence("a", Some(1)), presence("b", None));
    let met = meet(&stores[0], &one).await;
    assert_eq!(met.others, []);
    let clock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let clock: i64 = sqlx::query_scalar(clock).fetch_one(&mut scratch.connection().await).await.unwrap();
    assert!(clock.unsigned_abs().abs_diff(met.clock.0) < 60_000, "{clock} {met:?}");

    let others = meet(&stores[1], &two).await.others;
    assert_eq!(others.len(), 1);
    assert_eq!((others[0].presence.as_ref(), others[0].is_earlier), (Some(&one), true));
    let others = meet(&stores[0], &one).await.others;
    assert_eq!((others[0].presence.as_ref(), others[0].is_earlier), (Some(&two), false));

    // A replica that was not heard of for a while comes back as a later one.
    scratch
        .tamper("UPDATE replicas SET until = now() - interval '1 second' WHERE identity LIKE '%\"a\"%'")
        .await;
    assert_eq!(meet(&stores[1], &two).await.others, []);
    let others = meet(&stores[0], &one).await.others;
    assert!(others[0].is_earlier, "{others:?}");

    // One that began later, and was faster.
    scratch
        .tamper("UPDATE replicas SET until = now() + interval '21 seconds' WHERE identity LIKE '%\"b\"%'")
        .await;
    assert_eq!(meet(&stores[0], &one).await.others.len(), 1);

    // Rows that no replica wrote.
    scratch.tamper("UPDATE replicas SET identity = '[' WHERE identity LIKE '%\"b\"%'").await;
    let others = meet(&stores[0], &one).await.others;
    assert_eq!(others[0].presence, None);
    scratch.tamper("UPDATE replicas SET until = now() + interval '1 day'").await;
    assert_eq!(meet(&stores[0], &one).await.others, []);

    meet(&stores[1], &two).await;
    stores[1].close().await;
    assert_eq!(meet(&stores[0], &one).await.others, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn replica_that_returns_writes_nothing_before_it_has_met_the_others() {
    let scratch = Scratch::new();
    let stores = replicas(&scratch, 2).await;
    let (one, two) = (presence("a", None), presence("b", None));
    let first = |peers: &Peers| !peers.others.iter().any(|peer| peer.is_earlier);
    let may_write = async |n: usize| stores[n].probe_write(EpochMs(1)).await.is_ok();
    let meet = async |n: usize| stores[n].meet([&one, &two][n], first).await.unwrap();
    let stopped = async || {
        let sql = "UPDATE replicas SET until = now() - interval '1 second' WHERE identity LIKE '%\"a\"%'";
        scratch.tamper(sql).await;
    };
    meet(0).await;
    meet(1).await;
    assert_eq!((may_write(0).await, may_write(1).await), (true, false));
    // It is stopped, and the other one takes its place.
    stopped().await;
    assert!(!may_write(0).await);
    meet(1).await;
    assert_eq!((may_write(0).await, may_write(1).await), (false, true));
    // It says that it is here, but has not yet read what the other one says.
    let again = "UPDATE replicas SET since = now(), until = now() + interval '20 seconds' WHERE identity LIKE '%\"a\"%'";
    scratch.tamper(again).await;
    assert_eq!((may_write(0).await, may_write(1).await), (false, true));
    meet(0).await;
    assert_eq!((may_write(0).await, may_write(1).await), (false, true));
    // Alone, it goes on.
    stores[1].close().await;
    stopped().await;
    assert!(!may_write(0).await);
    meet(0).await;
    assert!(may_write(0).await);
}

#[tokio::test]
async fn webhook_is_given_to_one_replica_until_its_time_is_over() {
    let scratch = Scratch::new();
    let [one, other] = <[_; 2]>::try_from(replicas(&scratch, 2).await).unwrap();
    assert!(claim(&one, "books", ONE, 100).await.is_some());
    assert_eq!(claim(&other, "books", OTHER, 129).await, None);
    assert!(claim(&one, "books", ONE, 110).await.is_some(), "its own");
    assert_eq!(claim(&other, "books", OTHER, 139).await, None);
    assert!(claim(&other, "books", OTHER, 140).await.is_some());
    assert_eq!(claim(&one, "books", ONE, 150).await, None);
    assert!(claim(&one, "alerts", ONE, 150).await.is_some());
    // A clock that is behind takes nothing.
    assert_eq!(claim(&one, "books", ONE, 120).await, None);
    assert!(claim(&one, "books", ONE, 100).await.is_some(), "by more than a process asks for");
}
