//! PostgreSQL databases for tests, of this crate and of the whole gateway.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "tests fail by panicking"
)]

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

/// An empty database on the server that `scripts/postgres` started, or that `TEST_POSTGRES_URL` names. Dropped at the end.
#[derive(Debug)]
pub struct Scratch {
    server: String,
    /// The name of the database.
    pub name: String,
}

impl Scratch {
    /// Creates the database.
    #[expect(clippy::new_without_default, reason = "it creates a database")]
    pub fn new() -> Self {
        let started = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/postgres/url");
        let server = std::env::var("TEST_POSTGRES_URL").or_else(|_| std::fs::read_to_string(started));
        let server = server
            .expect("no PostgreSQL server: run `scripts/postgres start`, or name one in TEST_POSTGRES_URL");
        let mut random = [0; 8];
        getrandom::fill(&mut random).unwrap();
        let name = format!("store_{:016x}", u64::from_be_bytes(random));
        let scratch = Self { server: server.trim().to_owned(), name };
        scratch.on_server(&format!("CREATE DATABASE {} ENCODING 'UTF8' TEMPLATE template0", scratch.name));
        scratch
    }

    /// The URL of the database.
    pub fn url(&self) -> String {
        format!("{}/{}", self.server, self.name)
    }

    /// A connection beside the store's.
    pub async fn connection(&self) -> PgConnection {
        PgConnection::connect(&self.url()).await.unwrap()
    }

    /// Runs statements in the database.
    pub async fn tamper(&self, sql: &str) {
        self.connection().await.execute(AssertSqlSafe(sql.to_owned())).await.unwrap();
    }

    /// Runs a statement on the server, in a runtime of its own.
    pub fn on_server(&self, sql: &str) {
        let url = format!("{}/postgres", self.server);
        let run = async {
            let mut conn = PgConnection::connect(&url).await?;
            conn.execute(AssertSqlSafe(sql.to_owned())).await?;
            conn.close().await
        };
        std::thread::scope(|scope| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            scope.spawn(move || runtime.block_on(run).unwrap()).join().unwrap();
        });
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.on_server(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
        }
    }
}
