//! Tokens of clients' quotas, which are taken only if the commit is written.

use super::Deployment;
use super::samples::{assert_conflict, decision, hex32, opening, payment, submission};
use crate::Store;
use crate::{Cursor, DecisionPosition};
use gateway_domain::ids::{OperationId, Tenant};
use gateway_domain::policy::Moment;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{Commit, CommitOperations, RateLimited, ReadOperations};
use gateway_engine::{RateLimit, Token};
use tokio::task::JoinSet;

/// A token of a quota with 10 per second and a burst of 3. All instants are microseconds.
pub(crate) fn token(client: &str, now_us: u64) -> Token {
    Token {
        tenant: Tenant("default".into()),
        client_id: client.into(),
        now_us,
        increment_us: 100_000,
        latest_us: now_us + 200_000,
        trusted_until_us: now_us + 300_000 + 60_000_000,
        rate: RateLimit { per_second: 10, burst: 3 },
    }
}

/// The n-th of many operations.
pub(crate) fn nth(n: u16) -> Commit {
    let mut id = [0; 32];
    id[..2].copy_from_slice(&n.to_be_bytes());
    let mut submission = submission(1, payment());
    submission.operation_id = OperationId(gateway_domain::ids::Hex32::new(id));
    opening(submission, EpochMs(1_000))
}

/// Submits the n-th operation. Returns the instant at which the quota is full again: `Ok` if a token was taken, `Err`
/// if the quota had none.
async fn take(store: &Store, n: u16, token: Token) -> Result<u64, u64> {
    let commit = nth(n);
    let id = commit.operation.id;
    match store.commit_with_token(commit, token).await.unwrap() {
        RateLimited::Written { written, full_at_us } => {
            assert_eq!(store.operation_load(id).await.unwrap(), Some(*written));
            Ok(full_at_us)
        }
        RateLimited::Exhausted { full_at_us } => {
            assert_eq!(store.operation_load(id).await.unwrap(), None);
            Err(full_at_us)
        }
        RateLimited::Conflict => panic!("the commit had a version conflict"),
    }
}

pub(crate) async fn token_is_taken_with_its_operation_and_survives_reopening(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let now = 1_700_000_000_000_000;
    assert_eq!(take(&store, 1, token("a", now)).await, Ok(now + 100_000));
    assert_eq!(take(&store, 2, token("a", now)).await, Ok(now + 200_000));
    store.close().await;
    let store = deployment.open().await;
    assert_eq!(take(&store, 3, token("a", now)).await, Ok(now + 300_000));
    assert_eq!(take(&store, 4, token("a", now)).await, Err(now + 300_000));
    assert_eq!(take(&store, 4, token("a", now + 99_999)).await, Err(now + 300_000));
    assert_eq!(take(&store, 4, token("a", now + 100_000)).await, Ok(now + 400_000));
    // Another client, and a client with the same name of another tenant, have their own quotas.
    assert_eq!(take(&store, 5, token("b", now)).await, Ok(now + 100_000));
    let other = Token { tenant: Tenant("other".into()), ..token("a", now) };
    assert_eq!(take(&store, 6, other).await, Ok(now + 100_000));
}

pub(crate) async fn conflict_takes_no_token(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let full = take(&store, 1, token("a", 1_000_000)).await;
    for _ in 0..5 {
        let again = store.commit_with_token(nth(1), token("a", 1_000_000)).await.unwrap();
        assert_eq!(again, RateLimited::Conflict);
    }
    // The claim exists, but the operation itself does not.
    let mut claimed = nth(2);
    claimed.claim = nth(1).claim;
    assert_eq!(
        store.commit_with_token(claimed.clone(), token("a", 1_000_000)).await,
        Ok(RateLimited::Conflict)
    );
    assert_conflict(&store, claimed).await;
    assert_eq!(take(&store, 3, token("a", 1_000_000)).await, full.map(|full| full + 100_000));
    assert_eq!(take(&store, 4, token("a", 1_000_000)).await, Ok(1_300_000));
    // An operation that exists is a conflict even if the quota is exhausted: the submission is a replay.
    assert_eq!(take(&store, 5, token("a", 1_000_000)).await, Err(1_300_000));
    assert_eq!(store.commit_with_token(nth(1), token("a", 1_000_000)).await, Ok(RateLimited::Conflict));
}

pub(crate) async fn refusal_takes_a_token_with_its_record(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let refusal = || decision(3, Moment::Submit);
    for n in 1..=3 {
        let answer = store.decision_record_with_token(refusal(), token("a", 1_000_000)).await;
        assert_eq!(
            answer,
            Ok(RateLimited::Written { written: Some(n), full_at_us: 1_000_000 + n * 100_000 })
        );
    }
    let answer = store.decision_record_with_token(refusal(), token("a", 1_000_000)).await;
    assert_eq!(answer, Ok(RateLimited::Exhausted { full_at_us: 1_300_000 }));
    assert_eq!(take(&store, 1, token("a", 1_000_000)).await, Err(1_300_000));
    let decisions = deployment.decisions().await;
    let found = decisions.page(Cursor::default(), 10).await.unwrap();
    let positions: Vec<_> = found.iter().map(|one| one.position).collect();
    assert_eq!(
        positions,
        [DecisionPosition::Refusal(1), DecisionPosition::Refusal(2), DecisionPosition::Refusal(3)]
    );
    assert!(found.iter().all(|one| one.is_intact && one.operation_id == Some(OperationId(hex32(3)))));
    decisions.close().await;
}

pub(crate) async fn only_the_burst_of_200_concurrent_submissions_is_written(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let mut clients = JoinSet::new();
    for n in 0..200 {
        let store = store.clone();
        clients.spawn(async move { take(&store, n, token("a", 1_000_000)).await });
    }
    let answers = clients.join_all().await;
    let mut taken: Vec<_> = answers.iter().filter_map(|answer| answer.ok()).collect();
    taken.sort_unstable();
    assert_eq!(taken, [1_100_000, 1_200_000, 1_300_000]);
    assert!(answers.iter().filter_map(|answer| answer.err()).all(|full_at_us| full_at_us == 1_300_000));
}

/// Compares the SQL with the engine's arithmetic, with clocks that go forward and back, extreme times, and changing rates.
pub(crate) async fn quota_arithmetic_matches_the_engine(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let last = i64::MAX as u64 / 4;
    let (minute, hour) = (60_000_000, 3_600_000_000);
    let instants = [0, 1, 100_000, 100_001, 350_000, hour, hour, hour, hour, hour - minute, 5, 5, 5, 5, last];
    let (mut full_at_us, mut n) = (0, 0);
    for (now_us, (increment_us, burst)) in instants
        .into_iter()
        .flat_map(|now_us| [(100_000, 3), (1, 1), (1_000_000, 4_294_967_295_u64)].map(|rate| (now_us, rate)))
    {
        let latest_us = now_us + increment_us * (burst - 1);
        let trusted_until_us = latest_us + increment_us + minute;
        let token = Token { increment_us, latest_us, trusted_until_us, ..token("a", now_us) };
        n += 1;
        let expected = if token.is_exhausted_at(full_at_us) {
            Err(full_at_us)
        } else {
            Ok(token.full_after(full_at_us))
        };
        assert_eq!(take(&store, n, token).await, expected, "at {now_us} after {full_at_us}");
        full_at_us = expected.unwrap_or(full_at_us);
    }
}
