//! Spending totals by account, recipient, currency, tenant and window.

use super::Deployment;
use super::samples::{
    assert_conflict, decision_signed, failed, following, key_create, opening, submission, written,
};
use crate::Store;
use gateway_domain::ids::{KeyRef, Tenant};
use gateway_domain::intent::{Intent, Payment};
use gateway_domain::operation::Change;
use gateway_domain::policy::SpendingTotals;
use gateway_domain::policy::spending::HOUR_MS;
use gateway_domain::time::{DAY_MS, EpochMs};
use gateway_engine::ports::{Commit, ReadOperations, Record, SpendingRead};

/// The time at which most payments of these tests are decided.
const AT: EpochMs = EpochMs(2 * DAY_MS);

fn payment(account: &str, recipient: &str, amount_minor: i64) -> Payment {
    let Intent::Payment(payment) = super::samples::payment() else { panic!("the sample is a payment") };
    Payment { from_account: account.into(), to_account: recipient.into(), amount_minor, ..payment }
}

async fn open(store: &Store, byte: u8, tenant: &str, intent: Intent) -> Record {
    let mut submission = submission(byte, intent);
    submission.tenant = Tenant(tenant.into());
    written(store, opening(submission, EpochMs(1))).await
}

/// An operation whose admission is decided at `at`.
async fn decided(store: &Store, byte: u8, tenant: &str, payment: Payment, at: EpochMs) -> Record {
    let record = open(store, byte, tenant, Intent::Payment(payment)).await;
    written(store, following(&record, at, vec![decision_signed()])).await
}

async fn spending_totals(store: &Store, account: &str, recipient: &str, now: u64) -> SpendingTotals {
    let tenant = Tenant("default".into());
    store.spending_totals(&tenant, &payment(account, recipient, 1), EpochMs(now)).await.unwrap()
}

pub(crate) async fn admitted_payments_are_summed_by_party_and_window(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let store = &store;
    assert_eq!(spending_totals(store, "a", "x", AT.0).await, SpendingTotals::default());
    decided(store, 1, "default", payment("a", "x", 1), AT).await;
    decided(store, 2, "default", payment("a", "y", 10), EpochMs(AT.0 + 1)).await;
    decided(store, 3, "default", payment("b", "x", 100), EpochMs(AT.0 + 1)).await;
    decided(store, 4, "other", payment("a", "x", 1_000), AT).await;
    decided(store, 5, "default", Payment { currency: "USD".into(), ..payment("a", "x", 10_000) }, AT).await;
    let of_account = |hour: u64, day: u64, count: u64| SpendingTotals {
        account_hour_minor: hour,
        account_day_minor: day,
        account_day_count: count,
        ..SpendingTotals::default()
    };
    assert_eq!(spending_totals(store, "a", "other", AT.0 + 1).await, of_account(11, 11, 2));
    // The window ends at `now`. A payment exactly as old as the window is long is outside.
    assert_eq!(spending_totals(store, "a", "other", AT.0 + HOUR_MS - 1).await, of_account(11, 11, 2));
    assert_eq!(spending_totals(store, "a", "other", AT.0 + HOUR_MS).await, of_account(10, 11, 2));
    assert_eq!(spending_totals(store, "a", "other", AT.0 + HOUR_MS + 1).await, of_account(0, 11, 2));
    assert_eq!(spending_totals(store, "a", "other", AT.0 + DAY_MS).await, of_account(0, 10, 1));
    assert_eq!(spending_totals(store, "a", "other", AT.0 + DAY_MS + 1).await, SpendingTotals::default());
    let to_x =
        SpendingTotals { recipient_hour_minor: 100, recipient_day_minor: 101, ..SpendingTotals::default() };
    assert_eq!(spending_totals(store, "other", "x", AT.0 + HOUR_MS).await, to_x);
    // Receiving payments does not count as spending.
    assert_eq!(spending_totals(store, "x", "a", AT.0 + 1).await, SpendingTotals::default());
}

pub(crate) async fn payment_counts_from_its_decision_until_it_fails(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let day = async |store: &_| spending_totals(store, "a", "x", AT.0).await.account_day_minor;
    let record = open(&store, 1, "default", Intent::Payment(payment("a", "x", 7))).await;
    let record = written(&store, following(&record, AT, vec![Change::QuorumReached])).await;
    assert_eq!(day(&store).await, 0, "a quorum is not an admission");
    let record = written(&store, following(&record, AT, vec![decision_signed()])).await;
    assert_eq!(day(&store).await, 7);
    store.close().await;
    let store = deployment.open().await;
    assert_eq!(day(&store).await, 7);
    let aborted = Change::Aborted { failure: super::samples::failure() };
    let record = written(&store, following(&record, AT, vec![aborted])).await;
    assert_eq!(day(&store).await, 7, "a payment that is being discarded may still be signed");
    written(&store, following(&record, AT, vec![failed()])).await;
    assert_eq!(day(&store).await, 0);
    // A payment that failed before its decision, and one decided and failed in one commit, do not count.
    let refused = open(&store, 2, "default", Intent::Payment(payment("a", "x", 7))).await;
    written(&store, following(&refused, AT, vec![failed()])).await;
    let both = open(&store, 3, "default", Intent::Payment(payment("a", "x", 7))).await;
    written(&store, following(&both, AT, vec![decision_signed(), failed()])).await;
    assert_eq!(day(&store).await, 0);
}

pub(crate) async fn only_payments_are_summed(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let record = open(&store, 1, "default", key_create()).await;
    written(&store, following(&record, AT, vec![decision_signed()])).await;
    assert_eq!(spending_totals(&store, "acct-1", "acct-2", AT.0).await, SpendingTotals::default());
}

pub(crate) async fn negative_amounts_count_as_zero_and_sums_saturate(deployment: &impl Deployment) {
    let store = deployment.open().await;
    for (byte, amount_minor) in [(1, -5), (2, i64::MIN), (3, 0)] {
        decided(&store, byte, "default", payment("a", "x", amount_minor), AT).await;
    }
    let nothing = spending_totals(&store, "a", "x", AT.0).await;
    assert_eq!((nothing.account_day_minor, nothing.account_day_count), (0, 3));
    let max = u64::try_from(i64::MAX).unwrap();
    for (byte, total) in [(4, max), (5, 2 * max), (6, u64::MAX), (7, u64::MAX)] {
        decided(&store, byte, "default", payment("a", "x", i64::MAX), AT).await;
        let SpendingTotals {
            account_hour_minor,
            account_day_minor,
            recipient_hour_minor,
            recipient_day_minor,
            ..
        } = spending_totals(&store, "a", "x", AT.0).await;
        let all = [account_hour_minor, account_day_minor, recipient_hour_minor, recipient_day_minor];
        assert_eq!(all, [total; 4]);
    }
}

pub(crate) async fn payments_after_now_are_counted(deployment: &impl Deployment) {
    let store = deployment.open().await;
    decided(&store, 1, "default", payment("a", "x", 7), AT).await;
    assert_eq!(spending_totals(&store, "a", "x", AT.0 - 1_000).await.account_hour_minor, 7);
    assert_eq!(spending_totals(&store, "a", "x", 0).await.account_day_minor, 7);
}

pub(crate) async fn decision_on_outdated_totals_is_a_conflict(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let store = &store;
    let waiting = open(store, 1, "default", Intent::Payment(payment("a", "x", 7))).await;
    let read = SpendingRead { now: AT, totals: spending_totals(store, "a", "x", AT.0).await };
    let decision = following(&waiting, AT, vec![decision_signed()]);
    let decision = Commit { spending: Some(read), ..decision };
    decided(store, 2, "default", payment("b", "y", 10), AT).await;
    let other = decided(store, 3, "default", payment("a", "y", 10), AT).await;
    assert_conflict(store, decision.clone()).await;
    written(store, following(&other, AT, vec![failed()])).await;
    written(store, decision).await;
    let signed = open(store, 4, "default", Intent::Payment(payment("c", "x", 7))).await;
    let decision = following(&signed, AT, vec![decision_signed()]);
    assert_conflict(store, Commit { spending: Some(read), ..decision }).await;
}

async fn totals_of(store: &Store, tenant: &Tenant, payment: &Payment) -> SpendingTotals {
    store.spending_totals(tenant, payment, AT).await.unwrap()
}

/// Texts without repetitions, which a database cannot make shorter.
fn longest(length: usize, seed: u64) -> String {
    let next = |state: &u64| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    };
    let letters = std::iter::successors(Some(seed), next).skip(8).map(|state| (state >> 33) % 94 + 33);
    letters.take(length).filter_map(|letter| char::from_u32(u32::try_from(letter).unwrap())).collect()
}

pub(crate) async fn longest_texts_are_stored(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let tenant = Tenant(longest(1024, 1));
    let payment = Payment { currency: longest(64, 2), ..payment(&longest(1024, 3), &longest(1024, 4), 7) };
    for (byte, intent) in [(1, Intent::Payment(payment.clone())), (2, key_create())] {
        let mut submission = submission(byte, intent);
        submission.tenant = tenant.clone();
        submission.key.key_ref = KeyRef(longest(1024, 5));
        submission.submitter.client_id = longest(1024, 6);
        let mut commit = opening(submission, EpochMs(1));
        commit.claim = Some(longest(1024, 7));
        let record = written(&store, commit).await;
        if byte == 1 {
            written(&store, following(&record, AT, vec![decision_signed()])).await;
        }
    }
    assert_eq!(totals_of(&store, &tenant, &payment).await.account_day_minor, 7);
}
