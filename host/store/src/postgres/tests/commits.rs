//! Commits that wait together are written in one statement, and must end as if they were written one after the other.

use super::{Scratch, findings};
use crate::Store;
use crate::contract::Deployment;
use crate::contract::quota::{nth, token};
use crate::contract::samples::{
    decision_signed, following, key_create, note, on_key, opening, payment, submission, written,
};
use gateway_domain::ids::{Hex32, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{self, Intent};
use gateway_domain::policy::spending::Parties;
use gateway_domain::time::EpochMs;
use gateway_engine::Token;
use gateway_engine::ports::{
    Commit, CommitOperations, Committed, RateLimited, ReadLog, ReadOperations, Record, SpendingRead,
};
use std::sync::Arc;
use std::time::Duration;

const ROUNDS: u64 = 40;
const COMMITS: u64 = 24;
const AT: EpochMs = EpochMs(1_000_000);

#[derive(Clone)]
struct Case {
    commit: Commit,
    token: Option<Token>,
}

/// What became of a commit. The log's root is not part of it: a commit that depends on another one is appended after the others.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Written(Hex32, u64),
    Conflict,
    Exhausted(u64),
}

async fn outcome(store: &Store, Case { commit, token }: Case) -> Outcome {
    let Some(token) = token else {
        return match store.commit(commit).await.unwrap() {
            Committed::Written(record) => Outcome::Written(record.record_root, 0),
            Committed::Conflict => Outcome::Conflict,
        };
    };
    match store.commit_with_token(commit, token).await.unwrap() {
        RateLimited::Written { written, full_at_us } => Outcome::Written(written.record_root, full_at_us),
        RateLimited::Conflict => Outcome::Conflict,
        RateLimited::Exhausted { full_at_us } => Outcome::Exhausted(full_at_us),
    }
}

/// Commits of which some exclude others.
struct Cases {
    random: u64,
    n_created: u16,
    /// The states of operations, in which they were read by these commits.
    known: Vec<Record>,
    totals: SpendingRead,
    now_us: u64,
}

impl Cases {
    fn below(&mut self, n: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.random >> 33).unwrap() % n
    }

    fn created(&mut self) -> Commit {
        self.n_created += 1;
        nth(self.n_created)
    }

    fn record(&mut self) -> Record {
        let index = self.below(self.known.len());
        self.known[index].clone()
    }

    fn token(&mut self) -> Option<Token> {
        let client = ["a", "b"][self.below(2)];
        Some(token(client, self.now_us))
    }

    fn next(&mut self) -> Case {
        let (commit, token) = match self.below(8) {
            0 => (self.created(), None),
            1 | 2 => (self.created(), self.token()),
            3 => {
                let earlier = u16::try_from(self.below(self.n_created.into())).unwrap();
                (Commit { claim: nth(earlier + 1).claim, ..self.created() }, self.token())
            }
            4 => (nth(self.n_created), self.token()),
            5 => {
                let name = self.below(30);
                let mut submission = submission(1, key_create());
                submission.key.key_ref = KeyRef(format!("key-{name}"));
                submission.key.key_id =
                    intent::key_id(&Tenant("default".into()), &submission.key.key_ref).unwrap();
                submission.operation_id = self.created().operation.id;
                (on_key(opening(submission, AT), None), None)
            }
            6 => {
                let record = self.record();
                let is_decided = record.operation.admission.is_some();
                let change = if is_decided { note(1) } else { decision_signed() };
                let spending = (!is_decided).then(|| self.totals.clone());
                (Commit { spending, ..following(&record, AT, vec![change]) }, None)
            }
            _ => {
                let record = self.record();
                let byte = u8::try_from(self.below(200)).unwrap();
                (following(&record, AT, vec![note(byte), note(byte)]), None)
            }
        };
        Case { commit, token }
    }
}

#[tokio::test]
async fn commits_written_together_end_as_one_after_the_other() {
    let (scratch, folder) = (Scratch::new(), tempfile::tempdir().unwrap());
    let one_by_one = Store::open(&folder.path().join("store.db").display().to_string()).await.unwrap();
    let together = scratch.open().await;
    let first = nth(1);
    written(&together, first.clone()).await;
    let known = vec![written(&one_by_one, first).await];
    let Intent::Payment(payment) = payment() else { panic!("the sample is a payment") };
    let operation = &known[0].operation;
    let parties = Parties::of(&operation.tenant, &operation.submitter, operation.key.key_id, &payment);
    let totals = SpendingRead { parties: parties.clone(), now: AT, totals: Default::default() };
    let mut cases = Cases { random: 1, n_created: 1, known, totals, now_us: 1_000_000 };
    let (mut n_written, mut n_conflicts, mut n_exhausted) = (0, 0, 0);
    for round in 0..ROUNDS {
        cases.now_us += 150_000;
        cases.totals.totals = one_by_one.spending_totals(&parties, AT).await.unwrap();
        let batch: Vec<_> = (0..COMMITS).map(|_| cases.next()).collect();
        let mut expected = Vec::new();
        for case in batch.clone() {
            expected.push(outcome(&one_by_one, case).await);
        }
        // On one thread, all are queued before the writer runs.
        let before = together.counters().transactions;
        let tasks: Vec<_> = batch
            .iter()
            .cloned()
            .map(|case| {
                let store = Arc::clone(&together);
                tokio::spawn(async move { outcome(&store, case).await })
            })
            .collect();
        let mut found = Vec::new();
        for task in tasks {
            found.push(task.await.unwrap());
        }
        assert_eq!(found, expected, "round {round}");
        assert_eq!(together.counters().transactions, before + 1);
        for outcome in &found {
            match outcome {
                Outcome::Written(..) => n_written += 1,
                Outcome::Conflict => n_conflicts += 1,
                Outcome::Exhausted(_) => n_exhausted += 1,
            }
        }
        let ids: Vec<OperationId> = batch.iter().map(|case| case.commit.operation.id).collect();
        cases.known.clear();
        for id in ids {
            let (one, other) = (one_by_one.operation_load(id).await, together.operation_load(id).await);
            let (one, other) = (one.unwrap(), other.unwrap());
            assert_eq!(one.as_ref().map(|one| &one.operation), other.as_ref().map(|other| &other.operation));
            cases.known.extend(one);
        }
    }
    assert!(
        n_written > 300 && n_conflicts > 100 && n_exhausted > 30,
        "{n_written} {n_conflicts} {n_exhausted}"
    );
    assert_eq!(together.log_head().await.unwrap().size, one_by_one.log_head().await.unwrap().size);
    assert_eq!(findings(&scratch).await, []);
}

/// Plans of a session are made when tables are small, and stay.
#[tokio::test]
async fn commits_read_no_whole_table() {
    let scratch = Scratch::new();
    let whole_tables_read = async || {
        let sql = "SELECT coalesce(sum(seq_scan), 0)::bigint FROM pg_stat_user_tables
            WHERE relname IN ('operations', 'events', 'custody_keys', 'idempotency_claims', 'spending', 'admission_budgets')";
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut scratch.connection().await).await.unwrap()
    };
    let mut read = Vec::new();
    for n_commits in [0, 0, 60] {
        let before = whole_tables_read().await;
        let store = scratch.open().await;
        for n in 0..n_commits {
            let commit = nth(n + 1);
            let RateLimited::Written { written: record, .. } =
                store.commit_with_token(commit, token("a", u64::from(n) * 1_000_000)).await.unwrap()
            else {
                panic!("the quota is full")
            };
            written(&store, following(&record, AT, vec![decision_signed()])).await;
        }
        store.close().await;
        // A session says what it read before it is gone.
        let others = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
        let mut conn = scratch.connection().await;
        while sqlx::query_scalar::<_, i64>(others).fetch_one(&mut conn).await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        read.push(whole_tables_read().await - before);
    }
    assert_eq!(read[2], read[1], "each start reads as much");
}
