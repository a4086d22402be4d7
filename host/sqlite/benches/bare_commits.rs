//! Prints the durable transitions per second of one writer: `cargo bench -p gateway-sqlite --bench bare_commits
//! [-- seconds per line]`. The database is in the temporary folder (`TMPDIR`).
//!
//! A transition reads a row, checks its version, updates it and inserts an event. It is counted when the caller has
//! the answer, after the COMMIT. The processor time is of the whole process, including the clients.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gateway_sqlite::{ApplicationId, Connection, Database, Job, Migration, Options};
use tokio::task::JoinSet;

const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "bench",
    sql:
        "CREATE TABLE operation (id INTEGER PRIMARY KEY, version INTEGER NOT NULL, body BLOB NOT NULL) STRICT;
          CREATE TABLE event (operation INTEGER NOT NULL REFERENCES operation (id), version INTEGER NOT NULL,
                              body BLOB NOT NULL, PRIMARY KEY (operation, version)) STRICT, WITHOUT ROWID;",
}];

const SELECT: &str = "SELECT version, body FROM operation WHERE id = ?1";
const UPDATE_AND_INSERT: &str = "UPDATE operation SET version = ?2, body = ?3 WHERE id = ?1;
INSERT INTO event (operation, version, body) VALUES (?1, ?2, ?3)";

/// About the size of an operation or an event of the gateway, in bytes.
const BODY: [u8; 400] = [7; 400];

struct Open(i64);

impl Job for Open {
    type State = ();
    type Output = ();

    async fn apply(&self, conn: &mut Connection, _state: &mut ()) -> Result<(), sqlx::Error> {
        let sql = "INSERT INTO operation (id, version, body) VALUES (?1, 0, ?2)";
        conn.run(sql, &[self.0.into(), BODY[..].into()]).await
    }
}

struct Transition {
    id: i64,
    expected: i64,
}

impl Job for Transition {
    type State = ();
    type Output = bool;

    async fn apply(&self, conn: &mut Connection, _state: &mut ()) -> Result<bool, sqlx::Error> {
        let found: i64 = conn.value(SELECT, &[self.id.into()]).await?;
        if found != self.expected {
            return Ok(false);
        }
        let bound = [self.id.into(), (self.expected + 1).into(), BODY[..].into()];
        conn.run(UPDATE_AND_INSERT, &bound).await?;
        Ok(true)
    }
}

/// Processor time of this process so far, in seconds (proc(5): fields 14 and 15, in ticks of 10 ms).
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let after_name = stat.rsplit(')').next()?;
    let ticks = after_name.split_whitespace().skip(11).take(2).map(|text| text.parse::<f64>().ok());
    Some(ticks.sum::<Option<f64>>()? / 100.0)
}

async fn client(database: Arc<Database<()>>, id: i64, until: Instant) -> Result<u64, String> {
    database.write(Open(id)).await.map_err(|error| error.to_string())?;
    let mut version = 0;
    while Instant::now() < until {
        let job = Transition { id, expected: version };
        if !database.write(job).await.map_err(|error| error.to_string())? {
            return Err(format!("row {id} is not at version {version}"));
        }
        version += 1;
    }
    Ok(version.unsigned_abs())
}

async fn measure(n_clients: i64, lasting: Duration) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let options = Options::at_path(folder.path().join("bench.db"), ApplicationId::new(*b"BNCH"), MIGRATIONS);
    let database = Arc::new(Database::<()>::open(options.create()).await?);
    let (start, cpu_start) = (Instant::now(), cpu_seconds().unwrap_or(f64::NAN));
    let mut clients = JoinSet::new();
    for id in 0..n_clients {
        clients.spawn(client(Arc::clone(&database), id, start + lasting));
    }
    let mut n_transitions = 0;
    while let Some(done) = clients.join_next().await {
        n_transitions += done??;
    }
    let seconds = start.elapsed().as_secs_f64();
    let cpu_us = (cpu_seconds().unwrap_or(f64::NAN) - cpu_start) * 1e6 / n_transitions as f64;
    let done = database.counters();
    println!(
        "{n_clients:>4} clients {:>7.0} transitions/s {:>6.0} commits/s {:>6.1} a commit {cpu_us:>5.0} us CPU each",
        n_transitions as f64 / seconds,
        done.commits as f64 / seconds,
        done.jobs as f64 / done.commits as f64,
    );
    database.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // `cargo bench` adds the argument `--bench`.
    let seconds = std::env::args().nth(1).filter(|arg| arg != "--bench").map_or(Ok(5), |arg| arg.parse())?;
    for n_clients in [1, 32, 256] {
        measure(n_clients, Duration::from_secs(seconds)).await?;
    }
    Ok(())
}
