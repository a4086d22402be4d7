//! Databases that cannot be opened, each named in one line.

use super::{Scratch, findings};
use crate::contract::Deployment;
use crate::contract::samples::{opening_payment, written};
use crate::database::Pool;
use crate::postgres::connect::Server;
use crate::postgres::migrate;
use crate::sql::connection::Connection as _;
use crate::{Decisions, Fsck, Presence, Store};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{CommitOperations as _, ReadOperations as _};
use sqlx::migrate::Migrate as _;
use std::error::Error;
use std::future::pending;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

async fn refused(url: &str) -> String {
    let error = Store::open(url).await.unwrap_err();
    let message = error.to_string();
    assert!(!message.contains('\n') && !message.contains("secret"), "{message}");
    let source = error.source().map(ToString::to_string).unwrap_or_default();
    assert!(!source.contains("secret"), "{source}");
    message
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_urls_and_servers_are_refused_without_the_password() {
    let scratch = Scratch::new();
    let form = "the database URL is not of the form `postgres://user:password@host:port/database`";
    for url in [
        "postgres://user:secret@host:x/db",
        "postgres://user:secret@host",
        "postgres://",
        "postgresql://u:secret@h/d?sslmode=x",
    ] {
        assert_eq!(refused(url).await, form, "{url}");
    }
    let absent = "postgres://user:secret@127.0.0.1:1/db";
    assert!(
        refused(absent).await.starts_with("the PostgreSQL database `db` at `127.0.0.1:1` cannot be opened: ")
    );
    let missing = refused(&scratch.url().replace("/store_", "/absent_")).await;
    assert!(
        missing.contains("cannot be opened: database \"absent_") && missing.ends_with("does not exist"),
        "{missing}"
    );
    let unknown = refused(&scratch.url().replace("postgres@", "unknown:secret@")).await;
    assert!(unknown.contains("cannot be opened: role \"unknown\" does not exist"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn database_of_another_program_or_release_is_refused_and_unchanged() {
    let scratch = Scratch::new();
    scratch.tamper("CREATE TABLE invoices (id BIGINT)").await;
    let foreign = refused(&scratch.url()).await;
    assert!(
        foreign.ends_with("has tables of another program, such as `invoices`: name an empty database"),
        "{foreign}"
    );
    let n_tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    let n_tables: i64 =
        sqlx::query_scalar(n_tables).fetch_one(&mut scratch.connection().await).await.unwrap();
    assert_eq!(n_tables, 1);

    // Only the migrator's table, as another program's first start leaves it, and as ours does.
    let scratch = Scratch::new();
    scratch.connection().await.ensure_migrations_table("_sqlx_migrations").await.unwrap();
    let row = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (1, 'other', true, '', 0)";
    scratch.tamper(row).await;
    let foreign = refused(&scratch.url()).await;
    assert!(foreign.ends_with("such as `_sqlx_migrations`: name an empty database"), "{foreign}");
    scratch.tamper("DELETE FROM _sqlx_migrations").await;
    scratch.open().await.close().await;

    let scratch = Scratch::new();
    let old = Fsck::open(&scratch.url()).await.unwrap_err().to_string();
    assert!(old.contains("has schema version 0 of 1: start the gateway once"), "{old}");
    scratch.open().await.close().await;
    scratch.tamper("UPDATE _sqlx_migrations SET checksum = 'x' WHERE version = 1").await;
    assert!(refused(&scratch.url()).await.starts_with("migration 1 of the PostgreSQL database"));

    let scratch = Scratch::new();
    scratch.open().await.close().await;
    let next = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (9, 'next', true, '', 0)";
    scratch.tamper(next).await;
    scratch.tamper("ALTER TABLE operations ADD COLUMN added BIGINT; CREATE TABLE added (id BIGINT)").await;
    // During an update, the release before starts on what the next one only added to.
    let store = scratch.open().await;
    written(&store, opening_payment(1)).await;
    store.close().await;
    // Commands that compare everything want exactly their own schema.
    let expected = "has schema version 9, newer than the 1 this program knows";
    let newer = Decisions::open(&scratch.url()).await.unwrap_err().to_string();
    assert!(newer.ends_with(expected), "{newer}");
    for limit in [
        "UPDATE schema_usable_from SET version = 2",
        "DELETE FROM schema_usable_from",
        "DROP TABLE schema_usable_from",
    ] {
        scratch.tamper(limit).await;
        let newer = refused(&scratch.url()).await;
        assert!(newer.ends_with(expected), "{limit}: {newer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_start_together_migrate_once() {
    let scratch = Scratch::new();
    let open = async || Store::open(&scratch.url()).await.unwrap();
    let (one, two, three, four) = tokio::join!(open(), open(), open(), open());
    for store in [one, two, three, four] {
        assert_eq!(store.ping().await, Ok(()));
    }
}

/// Longer than any statement of a request may take.
const MIGRATION: Duration = Duration::from_secs(11);

#[tokio::test(flavor = "multi_thread")]
async fn migration_may_take_longer_than_a_request() {
    let scratch = Scratch::new();
    // One statement of the migration takes so long.
    scratch
        .tamper(&format!(
            "CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF to_regclass('operations_owing') IS NULL THEN PERFORM pg_sleep({}); END IF; END $$;
             CREATE EVENT TRIGGER slow ON ddl_command_start WHEN tag IN ('CREATE INDEX') EXECUTE FUNCTION slow()",
            MIGRATION.as_secs()
        ))
        .await;
    let started = Instant::now();
    // The second one waits for the first.
    let open = async || Store::open(&scratch.url()).await.unwrap();
    let (store, second) = tokio::join!(open(), open());
    assert!(started.elapsed() >= MIGRATION);
    written(&store, opening_payment(1)).await;
    store.close().await;
    second.close().await;
    let server = Server::parse(&scratch.url()).unwrap();
    let mut conn = server.connect().await.unwrap();
    migrate::run(&server, &mut conn).await.unwrap();
    for (name, expected) in [("statement_timeout", "10s"), ("lock_timeout", "8s")] {
        let sql = "SELECT current_setting($1)";
        let found: String = sqlx::query_scalar(sql).bind(name).fetch_one(&mut conn).await.unwrap();
        assert_eq!(found, expected, "{name} of the connection that writes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn database_in_another_encoding_is_refused() {
    let scratch = Scratch::new();
    let sql =
        format!("CREATE DATABASE {}_latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0", scratch.name);
    scratch.on_server(&sql);
    let url = format!("{}_latin", scratch.url());
    assert!(refused(&url).await.ends_with("its encoding is `LATIN1`: create it with `ENCODING 'UTF8'`"));
    scratch.on_server(&format!("DROP DATABASE {}_latin", scratch.name));
}

/// What administrators set, and what restored dumps bring.
const DEFAULTS: [&str; 12] = [
    "bytea_output = escape",
    "standard_conforming_strings = off",
    "lock_timeout = 1",
    "idle_in_transaction_session_timeout = 1",
    "default_transaction_isolation = serializable",
    "default_transaction_deferrable = on",
    "transform_null_equals = on",
    "quote_all_identifiers = on",
    "array_nulls = off",
    "plan_cache_mode = force_generic_plan",
    "datestyle = 'SQL, DMY'",
    "intervalstyle = sql_standard",
];

#[tokio::test(flavor = "multi_thread")]
async fn defaults_of_a_database_change_nothing() {
    let scratch = Scratch::new();
    for default in DEFAULTS {
        scratch.tamper(&format!("ALTER DATABASE {} SET {default}", scratch.name)).await;
    }
    let store = scratch.open().await;
    for n in 1..=20 {
        written(&store, opening_payment(n)).await;
    }
    store.close().await;
    let store = scratch.open().await;
    written(&store, opening_payment(21)).await;
    assert_eq!(store.operations_owing(EpochMs(1), 8, 8).await.map(|due| due.len()), Ok(0));
    store.close().await;
    assert_eq!(findings(&scratch).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn database_that_took_no_writes_for_a_while_is_written_again() {
    let scratch = Scratch::new();
    let store = scratch.open().await;
    let default = |value| {
        let set = format!("ALTER DATABASE {} SET default_transaction_read_only = {value}", scratch.name);
        scratch.on_server(&set);
    };
    let presence = Presence { identity: [].into(), policy: None };
    let meets = async || store.meet(&presence, |_| true).await.is_ok();
    assert!(meets().await && store.probe_write(EpochMs(1)).await.is_ok());
    default("on");
    // As a restart of the server does.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname";
    scratch.on_server(&format!("{end} = '{}'", scratch.name));
    for _ in 0..3 {
        assert!(store.probe_write(EpochMs(2)).await.is_err());
        assert!(!meets().await);
    }
    // Reading goes on.
    assert_eq!(store.ping().await, Ok(()));
    let message = refused(&scratch.url()).await;
    assert!(message.contains("takes no writes, since `default_transaction_read_only` is on"), "{message}");
    // Now no connection is closed.
    default("off");
    assert!(meets().await);
    assert_eq!(store.probe_write(EpochMs(3)).await, Ok(()));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_are_synced_whatever_the_default_is() {
    for (default, expected) in [("off", "on"), ("remote_write", "remote_write")] {
        let scratch = Scratch::new();
        scratch.tamper(&format!("ALTER DATABASE {} SET synchronous_commit = {default}", scratch.name)).await;
        let mut conn = Server::parse(&scratch.url()).unwrap().connect().await.unwrap();
        let used: String = sqlx::query_scalar("SHOW synchronous_commit").fetch_one(&mut conn).await.unwrap();
        assert_eq!(used, expected);
    }
}

/// Connections to the server that can be cut off without being closed, as by a firewall that forgets them.
struct Network {
    address: SocketAddr,
    /// Connections made before the last change are cut off.
    cut: watch::Sender<()>,
}

impl Network {
    async fn new(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = watch::Sender::new(());
        let cuts = cut.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut cut = cuts.subscribe();
                let mut server = TcpStream::connect(&server).await.unwrap();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => return,
                        _ = cut.changed() => drop(cut),
                    }
                    pending::<()>().await
                });
            }
        });
        Self { address, cut }
    }

    /// Cuts off every connection. After it, nothing more gets through.
    async fn cut_off(&self) {
        self.cut.send(()).unwrap();
        self.cut.closed().await;
    }
}

/// A store with two read connections, whose server it reaches through a network.
async fn behind_network() -> (Scratch, Network, Store) {
    let scratch = Scratch::new();
    let url = scratch.url();
    let server = url.split_once('@').unwrap().1.split_once('/').unwrap().0;
    let network = Network::new(server.to_owned()).await;
    let store = Store::open_with(&url.replace(server, &network.address.to_string()), 3).await.unwrap();
    (scratch, network, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_were_cut_off_are_given_up_and_replaced() {
    let (_scratch, network, store) = behind_network().await;
    // Two connections read: one statement, and one in a transaction.
    let Pool::Postgres(pool) = store.database.pool() else { panic!() };
    let slow = "SELECT pg_sleep(1)";
    let statement = async || pool.rows(slow, &[]).await;
    let transaction = async || {
        let mut snapshot = pool.snapshot().await?;
        snapshot.rows(slow, &[]).await?;
        snapshot.end().await
    };
    let started = Instant::now();
    let cut = async {
        // In the middle of the second that the statements take.
        sleep(Duration::from_millis(500)).await;
        network.cut_off().await;
    };
    let (one, two, ()) = tokio::join!(statement(), transaction(), cut);
    for error in [one.unwrap_err(), two.unwrap_err()] {
        assert!(error.to_string().ends_with("did not answer within 15 s"), "{error}");
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    // Both are replaced, and so are those that were cut off while nothing used them.
    let started = Instant::now();
    let (one, two) = tokio::join!(statement(), transaction());
    assert!(one.is_ok() && two.is_ok());
    network.cut_off().await;
    // One that answered just now would be used, and waited for.
    sleep(Duration::from_millis(250)).await;
    let mut answers = Vec::new();
    for _ in 0..4 {
        answers.push(statement().await.is_ok());
    }
    assert_eq!(answers, [true; 4]);
    // Each statement takes a second.
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

/// A connection that is given back is asked once more whether it answers. On one thread, nothing answers before the network is cut off.
#[tokio::test]
async fn connections_cut_off_while_they_are_given_back_leave_room_for_others() {
    let (_scratch, network, store) = behind_network().await;
    let Pool::Postgres(pool) = store.database.pool() else { panic!() };
    let both = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    drop(both);
    network.cut_off().await;
    let started = Instant::now();
    pool.rows("SELECT 1", &[]).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_the_server_accepts_are_refused() {
    let scratch = Scratch::new();
    let message = Store::open_with(&scratch.url(), 1000).await.unwrap_err().to_string();
    assert!(
        message.contains(
            "its server accepts 397 connections, and this gateway may use 1000: lower `database_connections`"
        ),
        "{message}"
    );
}

/// PgBouncer before the server.
struct Pooler {
    program: Child,
    _settings: TempDir,
    address: String,
}

impl Pooler {
    async fn start(server: &str, pool_mode: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
        let ((host, port), (listens, at)) =
            (server.split_once(':').unwrap(), address.split_once(':').unwrap());
        let settings = format!(
            "[databases]\n* = host={host} port={port} user=postgres\n[pgbouncer]\nlisten_addr = {listens}\nlisten_port = {at}
auth_type = any\nunix_socket_dir =\npool_mode = {pool_mode}\n"
        );
        let file = folder.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).unwrap();
        let mut command = Command::new("/usr/sbin/pgbouncer");
        // It refuses to run as root.
        if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
            command.args(["-u", "postgres"]);
        }
        let program = command.arg("-q").arg(&file).spawn().unwrap();
        let pooler = Self { program, _settings: folder, address };
        while TcpStream::connect(&pooler.address).await.is_err() {
            // A quiet pooler tells nothing of its start.
            sleep(Duration::from_millis(20)).await;
        }
        pooler
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pooler_must_give_each_connection_a_session_of_its_own() {
    let scratch = Scratch::new();
    let url = scratch.url();
    let server = url.split_once('@').unwrap().1.split_once('/').unwrap().0;
    for mode in ["transaction", "statement"] {
        let pooler = Pooler::start(server, mode).await;
        // Also when the pool has several sessions by now.
        for _ in 0..3 {
            let message = refused(&url.replace(server, &pooler.address)).await;
            assert!(
                message.ends_with("set `pool_mode = session` in PgBouncer, or name the server itself"),
                "{message}"
            );
        }
    }
    let pooler = Pooler::start(server, "session").await;
    let store = Store::open_with(&url.replace(server, &pooler.address), 4).await.unwrap();
    for n in 1..=20 {
        written(&store, opening_payment(n)).await;
    }
    for _ in 0..20 {
        let read = tokio::join!(store.ping(), store.ping(), store.ping(), store.probe_write(EpochMs(2)));
        assert_eq!(read, (Ok(()), Ok(()), Ok(()), Ok(())));
    }
    store.close().await;
    assert_eq!(findings(&scratch).await, []);
}
