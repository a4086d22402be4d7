//! Spending totals by account, recipient, currency, tenant and window.

use super::Deployment;
use super::samples::{
    assert_conflict, decision_signed, failed, following, key_create, opening, submission, written,
};
use crate::Store;
use gateway_domain::ids::{KeyRef, Tenant};
use gateway_domain::intent::{Intent, Payment};
use gateway_domain::operation::{Change, Operation, Submission};
use gateway_domain::policy::SpendingTotals;
use gateway_domain::policy::spending::{HOUR_MS, MINUTE_MS, Parties, Party, WINDOWS};
use gateway_domain::time::{DAY_MS, EpochMs};
use gateway_engine::ports::{Commit, ReadOperations, Record, SpendingRead};
use std::collections::BTreeSet;

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

/// The parties of a payment of the tenant, by the submitter and with the key of the samples.
fn parties(tenant: &str, payment: &Payment) -> Parties {
    let Submission { submitter, key, .. } = submission(1, Intent::Payment(payment.clone()));
    Parties::of(&Tenant(tenant.into()), &submitter, key.key_id, payment)
}

async fn spending_totals(store: &Store, account: &str, recipient: &str, now: u64) -> SpendingTotals {
    store.spending_totals(&parties("default", &payment(account, recipient, 1)), EpochMs(now)).await.unwrap()
}

/// What is paid in each window by an account to a recipient, in units of the currency, and by how many payments.
async fn paid(store: &Store, facts: &str, now: u64) -> ([u64; 4], [u64; 4]) {
    let totals = spending_totals(store, "a", "x", now).await;
    let of =
        |measure: &str| WINDOWS.map(|(window, _)| totals.get(&format!("{facts}{window}.{measure}")).unwrap());
    (of("units"), of("count"))
}

pub(crate) async fn admitted_payments_are_summed_by_party_and_window(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let store = &store;
    let [account, recipient, submitter, key] = Party::ALL.map(Party::prefix);
    let nothing = ([0; 4], [0; 4]);
    assert_eq!(paid(store, account, AT.0).await, nothing);
    decided(store, 1, "default", payment("a", "x", 1), AT).await;
    let next = AT.plus_ms(MINUTE_MS);
    decided(store, 2, "default", payment("a", "y", 10), next).await;
    decided(store, 3, "default", payment("b", "x", 100), next).await;
    decided(store, 4, "other", payment("a", "x", 1_000), AT).await;
    decided(store, 5, "default", Payment { currency: "USD".into(), ..payment("a", "x", 10_000) }, AT).await;
    assert_eq!(paid(store, account, next.0).await, ([11; 4], [2; 4]));
    // Receiving payments does not count as spending.
    assert_eq!(paid(store, recipient, next.0).await, ([101; 4], [2; 4]));
    // One person submits all, with one key.
    assert_eq!(paid(store, submitter, next.0).await, ([111; 4], [3; 4]));
    assert_eq!(paid(store, key, next.0).await, ([111; 4], [3; 4]));
    // A window ends at `now`. Its last minute counts to the end.
    for (nth, (_, window_ms)) in WINDOWS.into_iter().enumerate() {
        let after = |units: u64, count: u64| {
            let of = |all: u64, last: u64| {
                let mut windows = [0; 4];
                windows[nth..].fill(all);
                windows[nth] = last;
                windows
            };
            (of(11, units), of(2, count))
        };
        let end = AT.0 + window_ms;
        assert_eq!(paid(store, account, end + MINUTE_MS - 1).await, after(11, 2), "{window_ms}");
        assert_eq!(paid(store, account, end + MINUTE_MS).await, after(10, 1), "{window_ms}");
        assert_eq!(paid(store, account, end + 2 * MINUTE_MS - 1).await, after(10, 1), "{window_ms}");
        assert_eq!(paid(store, account, end + 2 * MINUTE_MS).await, after(0, 0), "{window_ms}");
    }
}

pub(crate) async fn only_parties_that_are_asked_for_are_summed(deployment: &impl Deployment) {
    let store = deployment.open().await;
    decided(&store, 1, "default", payment("a", "x", 7), AT).await;
    let asked = parties("default", &payment("a", "x", 7));
    let asked = asked.read_by(|facts| facts == Party::Key.prefix(), BTreeSet::new()).unwrap();
    let totals = store.spending_totals(&asked, AT).await.unwrap();
    assert_eq!(totals.iter().count(), 8);
    assert!(totals.iter().all(|(name, _)| name.starts_with("velocity.key.")));
    assert_eq!(totals.get("velocity.key.30d.units"), Some(7));
    let declared = ["CHF", "EUR", "USD"].map(str::to_owned);
    let asked = parties("default", &payment("a", "x", 7));
    let asked = asked.read_by(|facts| facts == Party::Account.prefix(), declared.into()).unwrap();
    let dollars = Payment { currency: "USD".into(), ..payment("a", "y", 3) };
    decided(&store, 2, "default", dollars, AT).await;
    let totals = store.spending_totals(&asked, AT).await.unwrap();
    let of = |currency: &str| totals.get(&format!("velocity.account.24h.units{currency}"));
    assert_eq!(
        ["", ".of.EUR", ".of.USD", ".of.CHF", ".of.GBP"].map(of),
        [Some(7), Some(7), Some(3), Some(0), None]
    );
    assert_eq!(totals.iter().count(), 8 * 4);
}

pub(crate) async fn payment_counts_from_its_decision_until_it_fails(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let day = async |store: &_| paid(store, Party::Account.prefix(), AT.0).await.0[1];
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
    let totals = spending_totals(&store, "acct-1", "acct-2", AT.0).await;
    assert!(totals.iter().all(|(_, total)| total == 0), "{totals:?}");
}

pub(crate) async fn negative_amounts_count_as_zero_and_sums_saturate(deployment: &impl Deployment) {
    let store = deployment.open().await;
    for (byte, amount_minor) in [(1, -5), (2, i64::MIN), (3, 0)] {
        decided(&store, byte, "default", payment("a", "x", amount_minor), AT).await;
    }
    assert_eq!(paid(&store, Party::Account.prefix(), AT.0).await, ([0; 4], [3; 4]));
    let max = u64::try_from(i64::MAX).unwrap();
    for (byte, total) in [(4, max), (5, 2 * max), (6, u64::MAX), (7, u64::MAX)] {
        decided(&store, byte, "default", payment("a", "x", i64::MAX), AT).await;
        for party in Party::ALL {
            assert_eq!(paid(&store, party.prefix(), AT.0).await.0, [total; 4]);
        }
    }
}

pub(crate) async fn payments_after_now_are_counted(deployment: &impl Deployment) {
    let store = deployment.open().await;
    decided(&store, 1, "default", payment("a", "x", 7), AT).await;
    decided(&store, 2, "default", payment("a", "x", 10), EpochMs(AT.0 - HOUR_MS)).await;
    for now in [AT.0 - 1_000, 0] {
        assert_eq!(paid(&store, Party::Account.prefix(), now).await, ([17; 4], [2; 4]));
    }
    assert_eq!(paid(&store, Party::Account.prefix(), AT.0 + MINUTE_MS).await.0, [7, 17, 17, 17]);
}

pub(crate) async fn decision_on_outdated_totals_is_a_conflict(deployment: &impl Deployment) {
    let store = deployment.open().await;
    let store = &store;
    let waiting = open(store, 1, "default", Intent::Payment(payment("a", "x", 7))).await;
    let asked = parties("default", &payment("a", "x", 7))
        .read_by(
            |facts| [Party::Account, Party::Recipient].map(Party::prefix).contains(&facts),
            ["USD".to_owned()].into(),
        )
        .unwrap();
    let totals = store.spending_totals(&asked, AT).await.unwrap();
    let read = SpendingRead { parties: asked, now: AT, totals };
    let decision = following(&waiting, AT, vec![decision_signed()]);
    let decision = Commit { spending: Some(read.clone()), ..decision };
    decided(store, 2, "default", payment("b", "y", 10), AT).await;
    let other = decided(store, 3, "default", payment("a", "y", 10), AT).await;
    assert_conflict(store, decision.clone()).await;
    written(store, following(&other, AT, vec![failed()])).await;
    let in_currency = |currency: &str| Payment { currency: currency.into(), ..payment("a", "z", 10) };
    let declared = decided(store, 5, "default", in_currency("USD"), AT).await;
    assert_conflict(store, decision.clone()).await;
    written(store, following(&declared, AT, vec![failed()])).await;
    decided(store, 6, "default", in_currency("CHF"), AT).await;
    written(store, decision).await;
    // Its own payment counts from then on.
    let signed = open(store, 4, "default", Intent::Payment(payment("c", "x", 7))).await;
    let decision = following(&signed, AT, vec![decision_signed()]);
    assert_conflict(store, Commit { spending: Some(read), ..decision }).await;
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
            let Operation { submitter, key, .. } = &*record.operation;
            let parties = Parties::of(&tenant, submitter, key.key_id, &payment);
            written(&store, following(&record, AT, vec![decision_signed()])).await;
            let totals = store.spending_totals(&parties, AT).await.unwrap();
            assert!(Party::ALL.iter().all(|party| totals.get(party.facts()[0][0]) == Some(7)), "{totals:?}");
        }
    }
}
