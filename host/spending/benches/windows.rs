//! Measures a payment with few and with many payments before it: `cargo bench -p gateway-spending --bench windows [-- payments of the
//! larger database]`. Both databases are measured in turns in one process, so that other load slows both equally.
//!
//! The payments before are of one account, one submitter and one key, to a thousand recipients, over 30 days. A measured payment reads the
//! totals of all its parties and writes its row, in a transaction that is synced.

#![expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "a measuring tool")]

use gateway_domain::ids::Tenant;
use gateway_domain::policy::spending::{KEPT_MS, Parties, Party};
use gateway_domain::time::EpochMs;
use gateway_sqlite::{ApplicationId, Connection, Database, Job, Migration, Options};
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

const TABLES: &str = "CREATE TABLE spending (operation_id TEXT NOT NULL PRIMARY KEY, tenant TEXT NOT NULL,
        account TEXT NOT NULL, recipient TEXT NOT NULL, submitter TEXT NOT NULL, key_id TEXT NOT NULL,
        currency TEXT NOT NULL, amount_minor INTEGER NOT NULL, at_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE INDEX spending_at ON spending (at_ms);
    CREATE TABLE rows_dropped (name TEXT NOT NULL PRIMARY KEY, through INTEGER NOT NULL) STRICT, WITHOUT ROWID;";
const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "tables", sql: TABLES },
    Migration { version: 2, name: "spending", sql: gateway_spending::SCHEMA },
];

const SMALL: u64 = 1_000;
const LARGE: u64 = 10_000_000;
const ROUNDS: u64 = 1_000;
const ROWS_PER_COMMIT: u64 = 100_000;

/// The end of the 30 days.
const NOW: EpochMs = EpochMs(1_800_000_000_000);

/// Some of the payments before.
struct Fill {
    from: u64,
    until: u64,
    of: u64,
}

impl Job for Fill {
    type State = ();
    type Output = ();

    async fn apply(&self, conn: &mut Connection, (): &mut ()) -> Result<(), sqlx::Error> {
        // The ids of operations are hashes: rows are added in no order.
        let sql = "WITH RECURSIVE nth (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM nth WHERE n + 1 < ?2)
            INSERT INTO spending SELECT printf('%016x%016x', n * 6364136223846793005, n), 'default', 'treasury',
                'recipient-' || (n % 1000), 'alice', 'key', 'EUR', 1000 + n % 977, ?3 + n * ?4 / ?5 FROM nth";
        let begin = NOW.0.saturating_sub(KEPT_MS);
        let bound = [self.from, self.until, begin, KEPT_MS, self.of];
        conn.run(sql, &bound.map(|number| i64::try_from(number).unwrap_or(i64::MAX).into())).await
    }
}

/// A payment. Its output is the amount of the longest window.
struct Pay(u64);

impl Job for Pay {
    type State = ();
    type Output = Option<u64>;

    async fn apply(&self, conn: &mut Connection, (): &mut ()) -> Result<Option<u64>, sqlx::Error> {
        let recipient = format!("recipient-{}", self.0 % 1000);
        let names = [
            (Party::Account, "treasury".to_owned()),
            (Party::Recipient, recipient.clone()),
            (Party::Submitter, "alice".to_owned()),
            (Party::Key, "key".to_owned()),
        ];
        let parties = Parties::named(Tenant("default".to_owned()), "EUR".to_owned(), names.into());
        let totals = gateway_spending::read(conn, &parties, NOW, None).await?;
        let sql =
            "INSERT INTO spending VALUES (?1, 'default', 'treasury', ?2, 'alice', 'key', 'EUR', 1000, ?3)";
        let at_ms = i64::try_from(NOW.0).unwrap_or(i64::MAX);
        conn.run(sql, &[format!("{:016x}-measured", self.0).into(), recipient.into(), at_ms.into()]).await?;
        Ok(totals.get("velocity.account.30d.units"))
    }
}

struct Measured {
    database: Database<()>,
    times: Vec<Duration>,
}

impl Measured {
    async fn with(payments: u64, path: &Path) -> Result<Self, Box<dyn Error>> {
        let options = Options::at_path(path, ApplicationId::new(*b"TEST"), MIGRATIONS).create();
        let database = Database::open(options).await?;
        let began = Instant::now();
        for from in (0..payments).step_by(usize::try_from(ROWS_PER_COMMIT)?) {
            let until = payments.min(from + ROWS_PER_COMMIT);
            database.write(Fill { from, until, of: payments }).await?;
        }
        database.checkpoint().await?;
        let bytes = std::fs::metadata(path)?.len();
        let per_row = began.elapsed().as_nanos() as f64 / payments as f64 / 1e3;
        println!("{payments} payments: {bytes} bytes, {per_row:.1} µs to write one of many in a transaction");
        Ok(Self { database, times: Vec::new() })
    }

    async fn pay(&mut self, nth: u64) -> Result<(), Box<dyn Error>> {
        let began = Instant::now();
        let paid = self.database.write(Pay(nth)).await?;
        self.times.push(began.elapsed());
        if paid.is_none_or(|paid| paid == 0) { Err("the totals are missing".into()) } else { Ok(()) }
    }

    fn median_us(&mut self) -> f64 {
        self.times.sort_unstable();
        self.times.get(self.times.len() / 2).map_or(0.0, |time| time.as_nanos() as f64 / 1e3)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let large = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(LARGE);
    let folder = tempfile::tempdir()?;
    let mut small = Measured::with(SMALL, &folder.path().join("small.db")).await?;
    let mut large = Measured::with(large, &folder.path().join("large.db")).await?;
    for nth in 0..ROUNDS {
        small.pay(nth).await?;
        large.pay(nth).await?;
    }
    let (few, many) = (small.median_us(), large.median_us());
    println!(
        "median of {ROUNDS} payments: {few:.1} µs with few before, {many:.1} µs with many: {:.2}",
        many / few
    );
    Ok(())
}
