//! Databases that cannot be opened, each named in one line.

use super::Scratch;
use crate::contract::Deployment;
use crate::postgres::connect::Server;
use crate::{Decisions, Fsck, Store};
use gateway_engine::ports::ReadOperations as _;
use std::error::Error;

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

    let scratch = Scratch::new();
    let old = Fsck::open(&scratch.url()).await.unwrap_err().to_string();
    assert!(old.contains("has schema version 0 of 1: start the gateway once"), "{old}");
    scratch.open().await.close().await;
    scratch.tamper("UPDATE _sqlx_migrations SET checksum = 'x' WHERE version = 1").await;
    assert!(refused(&scratch.url()).await.starts_with("migration 1 of the PostgreSQL database"));
    scratch.tamper("UPDATE _sqlx_migrations SET version = 9").await;
    let newer = refused(&scratch.url()).await;
    assert!(newer.ends_with("has schema version 9, newer than the 1 this program knows"), "{newer}");
    let newer = Decisions::open(&scratch.url()).await.unwrap_err().to_string();
    assert!(newer.ends_with("has schema version 9, newer than the 1 this program knows"), "{newer}");
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
