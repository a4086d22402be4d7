//! What the authority remembers of its decisions: amounts and bundles, under a gateway that hides them, concurrent requests, restarts and
//! files that another program changed.

use crate::asked::{Claimed, NOW, STRICT, approved, offer, rules, submission, verifier};
use crate::support::{authority, key, roster};
use gateway_domain::admission::Admission;
use gateway_domain::approval::SigningRule;
use gateway_domain::ids::{KeyRef, OperationId, Tenant};
use gateway_domain::intent::{Intent, key_id};
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::{KeySlot, Submission};
use gateway_domain::policy::SpendingTotals;
use gateway_domain::policy::facts::Rules;
use gateway_domain::policy::spending::{HOUR_MS, KEPT_MS, MINUTE_MS, Party, Sum};
use gateway_domain::testing::samples::hex32;
use gateway_domain::time::{DAY_MS, EpochMs};
use gateway_policy::limits::SUPERSEDED_BUNDLE_MS;
use gateway_policy::testing::{author, committed_bundle, key as bundle_key, signed};
use gateway_policy::{Pins, Trust};
use policy_authority::{Authority, DecisionRequest, Policies, Record, RecordError, Unverified, Verifier};
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// One authority with its files.
struct Site {
    folder: TempDir,
    key: Authority,
    verifier: Arc<Verifier>,
}

impl Site {
    async fn start() -> Self {
        Self::start_as(1).await
    }

    /// The authority with the key of this byte.
    async fn start_as(byte: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = authority(byte);
        let record = open(&folder, &key).await.unwrap();
        Self { folder, key, verifier: Arc::new(strict_verifier(record)) }
    }

    /// Ends the process and starts it again. It has the bundles that the gateway offers again.
    async fn restart(&mut self) {
        self.stop().await;
        let record = open(&self.folder, &self.key).await.unwrap();
        self.verifier = Arc::new(strict_verifier(record));
    }

    async fn stop(&self) {
        self.verifier.record.close().await;
    }

    async fn start_error(&self) -> RecordError {
        open(&self.folder, &self.key).await.unwrap_err()
    }

    fn database(&self) -> PathBuf {
        database(&self.folder)
    }

    async fn decide_at(&self, request: &DecisionRequest, now: EpochMs) -> Result<Admission, Unverified> {
        let verified = self.verifier.verify(request, now)?;
        self.verifier.admit(&self.key, verified).await
    }

    async fn decide(&self, request: &DecisionRequest) -> Result<Admission, Unverified> {
        self.decide_at(request, NOW).await
    }

    /// Runs SQL in the database of the stopped authority, as another program.
    async fn execute_sql(&self, sql: &'static str) {
        let url = format!("sqlite://{}", self.database().display());
        let mut conn = SqliteConnection::connect(&url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    }

    async fn count(&self, sql: &'static str) -> i64 {
        let url = format!("sqlite://{}", self.database().display());
        let mut conn = SqliteConnection::connect(&url).await.unwrap();
        sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap()
    }
}

fn database(folder: &TempDir) -> PathBuf {
    folder.path().join("record/authority.db")
}

async fn open(folder: &TempDir, key: &Authority) -> Result<Record, RecordError> {
    Record::open(&database(folder), &folder.path().join("size"), &key.public_key()).await
}

fn strict_verifier(record: Record) -> Verifier {
    Verifier { rules: any_recipient(), record, ..verifier(SigningRule::Off) }
}

fn any_recipient() -> Rules {
    Rules { permitted_recipients: "*".into(), ..rules() }
}

/// A payment of some `XTS`.
#[derive(Clone, Copy)]
struct Pay<'a> {
    id: u8,
    from: &'a str,
    to: &'a str,
    amount: i64,
}

const fn pay(id: u8, amount: i64) -> Pay<'static> {
    Pay { id, from: "acct-1", to: "acct-2", amount }
}

impl Pay<'_> {
    fn submission(self) -> Submission {
        let mut submission = submission(self.to);
        let Intent::Payment(payment) = &mut submission.intent else { panic!() };
        payment.from_account = self.from.to_owned();
        payment.amount_minor = self.amount;
        payment.currency = "XTS".to_owned();
        submission.operation_id = OperationId(hex32(self.id));
        submission.intent_hash = submission.intent.hash().unwrap();
        submission
    }

    /// The request of a gateway that states that this much was spent.
    fn stating(self, spent: i64) -> DecisionRequest {
        self.stating_at(spent, NOW)
    }

    fn stating_at(self, spent: i64, now: EpochMs) -> DecisionRequest {
        self.asked(spent, &key(), now)
    }

    fn asked(self, spent: i64, key: &CustodyKey, now: EpochMs) -> DecisionRequest {
        let totals = totals(spent, 0);
        let mut submission = self.submission();
        submission.key = KeySlot { key_ref: key.key_ref.clone(), key_id: key.key_id };
        if let Intent::Payment(payment) = &mut submission.intent {
            payment.key_ref = Some(key.key_ref.clone());
            payment.terms.requested_participants = key.participants.clone();
        }
        submission.intent_hash = submission.intent.hash().unwrap();
        let claimed = Claimed { rules: &any_recipient(), key: Some(key), totals };
        claimed.strict_request(approved(submission, &["alice", "bob"]), now)
    }
}

/// That account and recipient paid and got this much in every window.
fn totals(units: i64, count: i64) -> SpendingTotals {
    let sum = Sum { n: count, ..Sum::of(units) };
    let mut totals = SpendingTotals::default();
    [Party::Account, Party::Recipient].into_iter().for_each(|party| totals.insert(party, [sum; 4]));
    totals
}

#[track_caller]
fn assert_spent(decided: Result<Admission, Unverified>) -> SpendingTotals {
    match decided {
        Err(Unverified::Spent { totals, why }) => {
            assert!(why.to_string().contains("velocity_exceeded"), "{why}");
            totals
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn payments_that_the_authority_admitted_count_even_if_the_gateway_hides_them() {
    let site = Site::start().await;
    site.decide(&pay(1, 60).stating(0)).await.unwrap();
    let totals = assert_spent(site.decide(&pay(2, 41).stating(0)).await);
    assert_eq!(totals, self::totals(60, 1), "the gateway evaluates again with these");
    // What was refused does not count, and a payment that fits is signed although the facts are lower.
    site.decide(&pay(3, 40).stating(0)).await.unwrap();
    assert_spent(site.decide(&pay(4, 1).stating(0)).await);
    assert_spent(site.decide(&pay(4, 1).stating(99)).await);
    // Another account has its own limit; its recipient has one of 150 from all accounts.
    let from = |id, account, amount| Pay { from: account, ..pay(id, amount) };
    site.decide(&from(5, "acct-7", 50).stating(0)).await.unwrap();
    assert_spent(site.decide(&from(6, "acct-8", 1).stating(0)).await);
    let elsewhere = Pay { to: "acct-3", ..from(6, "acct-8", 100) };
    site.decide(&elsewhere.stating(0)).await.unwrap();
}

/// Nodes of one key do not know what nodes of the other one admitted.
#[tokio::test]
async fn keys_of_one_account_on_disjoint_rosters_share_its_limit() {
    let site = Site::start().await;
    let key_on = |name: &str, participants: &[u16]| {
        let key_ref = KeyRef(name.into());
        let key_id = key_id(&Tenant("default".into()), &key_ref).unwrap();
        CustodyKey { key_ref, key_id, participants: roster(participants), ..key() }
    };
    let keys = [key_on("first", &[0, 1]), key_on("second", &[2, 3]), key_on("third", &[4, 5])];
    site.decide(&pay(1, 100).asked(0, &keys[0], NOW)).await.unwrap();
    for (id, key) in (2..).zip(&keys) {
        assert_spent(site.decide(&pay(id, 1).asked(0, key, NOW)).await);
    }
}

#[tokio::test]
async fn repeated_decision_is_signed_again_and_counts_once_from_the_later_time() {
    let mut site = Site::start().await;
    let first = site.decide(&pay(1, 60).stating(0)).await.unwrap();
    assert_eq!(site.decide(&pay(1, 60).stating(0)).await.unwrap(), first);
    site.restart().await;
    assert_eq!(site.decide(&pay(1, 60).stating(0)).await.unwrap(), first);
    site.decide(&pay(2, 40).stating(0)).await.unwrap();
    // A decision that is valid later counts from later, or a day's limit could be used twice at the end of the day.
    let later = NOW.plus_ms(DAY_MS - 1);
    site.decide_at(&pay(1, 60).stating_at(0, later), later).await.unwrap();
    let next_day = NOW.plus_ms(DAY_MS + MINUTE_MS);
    assert_spent(site.decide_at(&pay(3, 41).stating_at(0, next_day), next_day).await);
    // Not from an earlier one, after the clock was set back.
    site.decide(&pay(1, 60).stating(0)).await.unwrap();
    assert_spent(site.decide_at(&pay(3, 41).stating_at(0, next_day), next_day).await);
    site.decide_at(&pay(3, 40).stating_at(0, next_day), next_day).await.unwrap();
}

#[tokio::test]
async fn payment_counts_for_a_day_and_its_row_is_removed_after_the_longest_window() {
    let site = Site::start().await;
    site.decide(&pay(1, 100).stating(0)).await.unwrap();
    for now in [NOW.plus_ms(HOUR_MS), NOW.plus_ms(DAY_MS - 1), EpochMs(NOW.0 - HOUR_MS)] {
        assert_spent(site.decide_at(&pay(2, 1).stating_at(0, now), now).await);
    }
    let next_day = NOW.plus_ms(DAY_MS + MINUTE_MS);
    site.decide_at(&pay(2, 100).stating_at(0, next_day), next_day).await.unwrap();
    assert_eq!(site.count("SELECT count(*) FROM spending").await, 2);
    let later = NOW.plus_ms(KEPT_MS + 2 * MINUTE_MS);
    site.decide_at(&pay(3, 100).stating_at(0, later), later).await.unwrap();
    assert_eq!(site.count("SELECT count(*) FROM spending").await, 2, "the oldest row is removed");
}

/// The operation's id is the row's key: with two payments of one id, one would be counted.
#[tokio::test]
async fn second_payment_under_the_id_of_a_decided_one_is_refused() {
    let site = Site::start().await;
    site.decide(&pay(1, 1).stating(0)).await.unwrap();
    let refused = site.decide(&pay(1, 100).stating(0)).await.unwrap_err();
    assert!(matches!(refused, Unverified::OtherPayment), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_payments_decided_at_the_same_time_only_those_within_the_limit_are_signed() {
    let site = Site::start().await;
    let key = Arc::new(authority(1));
    let deciding: Vec<_> = (1..=20)
        .map(|id| {
            let (verifier, key) = (Arc::clone(&site.verifier), Arc::clone(&key));
            let verified = verifier.verify(&pay(id, 30).stating(0), NOW).unwrap();
            tokio::spawn(async move { verifier.admit(&key, verified).await })
        })
        .collect();
    let mut n_signed = 0;
    for decided in deciding {
        match decided.await.unwrap() {
            Ok(_) => n_signed += 1,
            refused @ Err(_) => _ = assert_spent(refused),
        }
    }
    assert_eq!(n_signed, 3);
}

#[tokio::test]
async fn restarted_authority_counts_what_it_admitted_before() {
    let mut site = Site::start().await;
    site.decide(&pay(1, 60).stating(0)).await.unwrap();
    site.restart().await;
    assert_spent(site.decide(&pay(2, 41).stating(0)).await);
    site.decide(&pay(3, 40).stating(0)).await.unwrap();
}

/// `/dev/full` fails each write: the decision is in the database, and the process cannot note that outside.
#[tokio::test]
async fn decision_that_was_recorded_but_not_signed_counts_once() {
    let mut site = Site::start().await;
    site.stop().await;
    let full = PathBuf::from("/dev/full");
    let record = Record::open(&site.database(), &full, &site.key.public_key()).await.unwrap();
    site.verifier = Arc::new(strict_verifier(record));
    let failed = site.decide(&pay(1, 60).stating(0)).await.unwrap_err();
    assert!(matches!(failed, Unverified::NotRecorded(_)), "{failed}");
    assert!(!failed.to_string().contains("/dev/full"), "callers see the message");
    site.restart().await;
    assert_spent(site.decide(&pay(2, 41).stating(0)).await);
    site.decide(&pay(1, 60).stating(0)).await.unwrap();
    site.decide(&pay(3, 40).stating(0)).await.unwrap();
}

#[tokio::test]
async fn decision_is_not_signed_if_it_cannot_be_recorded() {
    let site = Site::start().await;
    site.stop().await;
    let failed = site.decide(&pay(1, 60).stating(0)).await.unwrap_err();
    assert!(matches!(failed, Unverified::NotRecorded(_)), "{failed}");
}

#[tokio::test]
async fn restarted_authority_refuses_a_bundle_older_than_the_one_that_decided() {
    let release = |sequence| {
        signed(&committed_bundle(STRICT), &[&bundle_key(1)], |manifest| manifest.sequence = sequence)
    };
    let (old, new) = (release(1), release(2));
    let trust = Trust::new(true);
    trust.replace(Ok(&serde_json::to_vec(&author()).unwrap()), Pins::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let start = async || {
        let policies = Policies::new(trust.clone(), Arc::default());
        for files in [&old, &new] {
            policies.offer(offer(files.clone()), NOW).unwrap();
        }
        let record = open(&folder, &authority(1)).await.unwrap();
        Verifier { policies, ..strict_verifier(record) }
    };
    let by = |files: &gateway_policy::BundleFiles, id, now| DecisionRequest {
        bundle_hash: files.bundle_hash().unwrap(),
        ..pay(id, 1).stating_at(0, now)
    };
    let decide = async |verifier: &Verifier, request: DecisionRequest, now| {
        verifier.admit(&authority(1), verifier.verify(&request, now)?).await.map(drop)
    };
    let verifier = start().await;
    decide(&verifier, by(&old, 1, NOW), NOW).await.unwrap();
    decide(&verifier, by(&new, 2, NOW), NOW).await.unwrap();
    verifier.record.close().await;
    let verifier = start().await;
    // Decided before the activation, and late.
    decide(&verifier, by(&old, 3, NOW), NOW).await.unwrap();
    let later = NOW.plus_ms(SUPERSEDED_BUNDLE_MS);
    let refused = decide(&verifier, by(&old, 4, later), later).await.unwrap_err();
    assert!(matches!(refused, Unverified::Superseded(_)), "{refused}");
    decide(&verifier, by(&new, 4, later), later).await.unwrap();
    verifier.record.close().await;
}

#[tokio::test]
async fn record_that_was_removed_or_restored_stops_the_start_until_the_operator_removes_the_size_file() {
    let mut site = Site::start().await;
    site.decide(&pay(1, 60).stating(0)).await.unwrap();
    site.stop().await;
    let copy = fs::read(site.database()).unwrap();
    site.restart().await;
    site.decide(&pay(2, 40).stating(0)).await.unwrap();
    site.stop().await;
    let newest = fs::read(site.database()).unwrap();

    fs::write(site.database(), &copy).unwrap();
    let error = site.start_error().await;
    assert!(matches!(error, RecordError::Older { n_decisions: 1, known: 2, .. }), "{error}");
    fs::remove_file(site.database()).unwrap();
    let error = site.start_error().await;
    assert!(matches!(error, RecordError::Older { n_decisions: 0, known: 2, .. }), "{error}");
    assert!(error.to_string().contains("authority.db"), "{error}");
    fs::write(site.database(), &newest).unwrap();
    site.restart().await;
    assert_spent(site.decide(&pay(3, 1).stating(0)).await);

    site.stop().await;
    fs::write(site.database(), &copy).unwrap();
    fs::remove_file(site.folder.path().join("size")).unwrap();
    site.restart().await;
    site.decide(&pay(3, 40).stating(0)).await.unwrap();
}

#[tokio::test]
async fn altered_row_schema_or_size_file_is_named_at_the_start() {
    let site = Site::start().await;
    site.decide(&pay(1, 60).stating(0)).await.unwrap();
    site.stop().await;
    let sound = fs::read(site.database()).unwrap();
    for (sql, named) in [
        ("UPDATE spending SET amount_minor = 0", "the row of payment"),
        ("UPDATE spending SET at_ms = 0", "the row of payment"),
        ("UPDATE spending SET account = 'acct-9'", "the row of payment"),
        ("UPDATE bundle SET sequence = 0", "the row of bundle"),
        ("DROP TRIGGER size_only_grows", "trigger size_only_grows"),
        ("CREATE TRIGGER mine AFTER INSERT ON spending BEGIN DELETE FROM spending; END", "trigger mine"),
        (
            "UPDATE spending_sums SET low = 0 WHERE party = 1",
            "the row of `spending_sums` with party 1, name \"acct-2\"",
        ),
        ("DELETE FROM spending_sums", "the row of `spending_sums` with party 0, name \"acct-1\""),
        ("DROP TRIGGER spending_is_added", "trigger spending_is_added"),
    ] {
        site.execute_sql(sql).await;
        let error = site.start_error().await;
        let shown = gateway_domain::error_chain(&error);
        assert!(shown.contains(named), "{sql}: {shown}");
        fs::write(site.database(), &sound).unwrap();
    }
    fs::write(site.folder.path().join("size"), "12").unwrap();
    let error = site.start_error().await;
    assert!(matches!(error, RecordError::SizeFile(_)), "{error}");
}

/// What a gateway gets signed by `k` of `n` authorities, which it asks for each payment at those that `chosen` names.
async fn signed_in_total((n, k): (u8, u8), payments: impl IntoIterator<Item = (i64, BTreeSet<u8>)>) -> i64 {
    let mut sites = Vec::new();
    for byte in 1..=n {
        sites.push(Site::start_as(byte).await);
    }
    let mut total = 0;
    for (id, (amount, chosen)) in (1..).zip(payments) {
        let mut n_signed = 0;
        for index in chosen {
            let decided = sites[usize::from(index)].decide(&pay(id, amount).stating(0)).await;
            n_signed += u8::from(decided.is_ok());
        }
        total += if n_signed >= k { amount } else { 0 };
    }
    total
}

/// Each payment that k signed is in k of n records, and each record stays within the limit L: k times their sum is at most n times L.
/// If f of the authorities lie and sign everything, the others are n-f, of which k-f must sign.
#[tokio::test]
async fn payments_signed_by_k_of_n_authorities_stay_within_n_over_k_times_the_limit() {
    const LIMIT: i64 = 100;
    for (n, k) in [(1, 1), (2, 2), (3, 2), (4, 2), (5, 3)] {
        let bound = LIMIT * i64::from(n) / i64::from(k);
        // The k authorities that come next, which spreads the payments evenly.
        let next = |nth: u8| (0..k).map(|offset| (nth * k + offset) % n).collect();
        let even = (0..12).map(|nth| (LIMIT / i64::from(k), next(nth)));
        let total = signed_in_total((n, k), even).await;
        assert!(total <= bound, "{k} of {n}: {total}");
        if LIMIT % i64::from(k) == 0 {
            assert_eq!(total, bound, "{k} of {n}: a gateway reaches it");
        }
        for seed in 0..2 {
            let mut random = Random(seed);
            let chance = (0..20).map(|_| {
                let amount = 1 + i64::from(random.below(60));
                let mut chosen = BTreeSet::new();
                while chosen.len() < usize::from(k) {
                    chosen.insert(random.below(n));
                }
                (amount, chosen)
            });
            let total = signed_in_total((n, k), chance.collect::<Vec<_>>()).await;
            assert!((1..=bound).contains(&total), "{k} of {n}, seed {seed}: {total}");
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u8) -> u8 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u8::try_from((mixed ^ (mixed >> 31)) % u64::from(bound)).unwrap()
    }
}
