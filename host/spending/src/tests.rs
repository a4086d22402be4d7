//! The sums that triggers keep, against sums of all payments.

use super::*;
use gateway_domain::ids::Tenant;
use gateway_domain::time::DAY_MS;
use gateway_sqlite::Migration;

const TABLES: &str = "CREATE TABLE spending (operation_id TEXT NOT NULL PRIMARY KEY, tenant TEXT NOT NULL,
        account TEXT NOT NULL, recipient TEXT NOT NULL, submitter TEXT NOT NULL, key_id TEXT NOT NULL,
        currency TEXT NOT NULL, amount_minor INTEGER NOT NULL, at_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE INDEX spending_at ON spending (at_ms);
    CREATE TABLE rows_dropped (name TEXT NOT NULL PRIMARY KEY, through INTEGER NOT NULL) STRICT, WITHOUT ROWID;";

fn database() -> Connection {
    let tables = Migration { version: 1, name: "tables", sql: TABLES };
    Connection::in_memory(&[tables, Migration { version: 2, name: "spending", sql: SCHEMA }]).unwrap()
}

#[derive(Clone, Copy, Debug)]
struct Paid {
    id: u64,
    /// Account, recipient, submitter and key.
    names: [u64; 4],
    currency: u64,
    amount_minor: i64,
    at: EpochMs,
}

impl Paid {
    async fn write(&self, conn: &mut Connection) {
        let names = self.names.map(|name| format!("p{name}"));
        let sql = "INSERT INTO spending VALUES (?1, 't', ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let mut bound = vec![Cell::from(self.id.to_string())];
        bound.extend(names.map(Cell::from));
        bound.extend([
            format!("c{}", self.currency).into(),
            self.amount_minor.into(),
            column(self.at.0).into(),
        ]);
        conn.run(sql, &bound).await.unwrap();
    }

    fn parties(&self) -> Parties {
        let [account, recipient, submitter, key] = self.names.map(|name| format!("p{name}"));
        let names = [
            (Party::Account, account),
            (Party::Recipient, recipient),
            (Party::Submitter, submitter),
            (Party::Key, key),
        ];
        Parties::named(Tenant("t".into()), format!("c{}", self.currency), names.into())
    }
}

/// As the totals are defined: a payment counts until the window has passed since the end of its minute.
fn expected(paid: &[Paid], of: &Paid, now: EpochMs, but: Option<u64>) -> SpendingTotals {
    let mut totals = SpendingTotals::default();
    for (index, party) in Party::ALL.into_iter().enumerate() {
        let sums = WINDOWS.map(|(_, window_ms)| {
            let counts = |one: &&Paid| {
                let end = (one.at.0 / MINUTE_MS + 1) * MINUTE_MS;
                one.names[index] == of.names[index]
                    && one.currency == of.currency
                    && end + window_ms > now.0
                    && Some(one.id) != but
            };
            paid.iter().filter(counts).map(|one| Sum::of(one.amount_minor)).fold(
                Sum::default(),
                |sum, one| Sum { high: sum.high + one.high, low: sum.low + one.low, n: sum.n + one.n },
            )
        });
        totals.insert(party, sums);
    }
    totals
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Payments are decided, fail and grow old, sometimes with a clock that was set back.
#[tokio::test]
async fn sums_are_those_of_all_payments() {
    for seed in 0..100 {
        let (mut random, mut conn, fails) = (Random(seed), database(), seed % 4 > 0);
        let (mut paid, mut now): (Vec<Paid>, _) = (Vec::new(), EpochMs(100 * DAY_MS));
        for id in 0..60 {
            now = now.plus_ms(random.below(4) * random.below(DAY_MS));
            let late = random.below(10) * random.below(2 * MINUTE_MS);
            let names = [(); 4].map(|()| random.below(3));
            let amount_minor = match random.below(8) {
                0 => i64::MAX,
                _ => column(random.below(1 << 40)),
            };
            let at = EpochMs(now.0 - late);
            let one = Paid { id, names, currency: random.below(2), amount_minor, at };
            one.write(&mut conn).await;
            paid.push(one);
            if fails && random.below(4) == 0 {
                let failed = paid.swap_remove(usize::try_from(random.below(paid.len() as u64)).unwrap());
                conn.run("DELETE FROM spending WHERE operation_id = ?1", &[failed.id.to_string().into()])
                    .await
                    .unwrap();
            }
            if random.below(3) == 0 {
                drop_old(&mut conn, now).await.unwrap();
                paid.retain(|one| one.at.0 / MINUTE_MS >= (now.0 - KEPT_MS) / MINUTE_MS);
            }
            let own = paid.first().map(|own| (own.id, Own { at: own.at, amount_minor: own.amount_minor }));
            let of = paid.first().copied().unwrap_or(one);
            let found = read(&mut conn, &of.parties(), now, own.map(|(_, own)| own)).await.unwrap();
            assert_eq!(found, expected(&paid, &of, now, own.map(|(id, _)| id)), "seed {seed}, payment {id}");
            assert!(differences(&mut conn).await.unwrap().is_empty(), "seed {seed}, payment {id}");
        }
        // When all have grown old, nothing is left of them, but for what a payment that failed may leave.
        drop_old(&mut conn, now.plus_ms(2 * KEPT_MS)).await.unwrap();
        let left: i64 = conn.value("SELECT count(*) FROM spending_sums", &[]).await.unwrap();
        let paid: i64 = conn.value("SELECT count(*) FROM spending", &[]).await.unwrap();
        assert_eq!(paid, 0, "seed {seed}");
        assert!(fails || left == 0, "seed {seed}: {left}");
    }
}

#[tokio::test]
async fn changed_sums_and_payments_are_named() {
    let mut conn = database();
    let one = Paid { id: 1, names: [1, 2, 3, 4], currency: 0, amount_minor: 7, at: EpochMs(90 * MINUTE_MS) };
    one.write(&mut conn).await;
    Paid { id: 2, at: EpochMs(99 * MINUTE_MS), ..one }.write(&mut conn).await;
    for damage in [
        "UPDATE spending_sums SET low = low - 1 WHERE party = 2 AND minute = 90",
        "UPDATE spending_sums SET n = 0 WHERE party = 0",
        "UPDATE spending_sums SET minute = 91 WHERE minute = 90 AND party = 3",
        "DELETE FROM spending_sums WHERE minute = 99 AND party = 1",
        "INSERT INTO spending_sums VALUES ('t', 'c0', 0, 'invented', 95, 0, 1, 1)",
        "UPDATE spending SET amount_minor = 8 WHERE operation_id = '2'",
    ] {
        conn.run("BEGIN", &[]).await.unwrap();
        conn.run(damage, &[]).await.unwrap();
        assert!(!differences(&mut conn).await.unwrap().is_empty(), "{damage}");
        conn.run("ROLLBACK", &[]).await.unwrap();
        assert!(differences(&mut conn).await.unwrap().is_empty());
    }
}
