//! The server and its connections: settings of a session, and what a server must be.

use crate::error::has_code;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, Row as _};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

/// Connections of one replica unless its settings say otherwise: one writes, the others read. A read takes some hundred microseconds.
pub const CONNECTIONS: u32 = 9;

/// Time to connect, or to get a read connection, before a request is answered with 503.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Time for the server to answer on an idle connection, before the next is tried. After a server moved to another machine, none of its
/// connections is closed, and all of them are tried within [`CONNECT_WITHIN`].
pub(super) const IDLE_ANSWERS_WITHIN: Duration = Duration::from_millis(500);

/// Time for the server's answer to a statement, after which its connection is given up. The server ends statements itself, earlier than
/// this; a server that is gone, or a standby that it waits for, does not.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Settings of each session, whatever the defaults of the server, the database and the user are. They are statements, since a pooler
/// ignores or refuses them when a connection is made.
pub(super) const SESSION: &str = "SET jit = off;
    SET bytea_output = hex;
    SET standard_conforming_strings = on;
    SET quote_all_identifiers = off;
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// Settings of each session that answers requests. A session whose client is gone must not keep the end of the log locked, and no
/// statement of a request takes seconds: then the server or the network is ill, and the request is answered with 503.
pub(super) const LIMITS: &str = "SET statement_timeout = '10s';
    SET lock_timeout = '8s';
    SET idle_in_transaction_session_timeout = '10s';
    SET tcp_user_timeout = '10s'";

/// Settings of a session that writes. Its plans are made once, for any number of rows, and stay while tables that were small grow: every row
/// that a write needs is found by an index. Bodies are compressed by the faster of the two algorithms, if the server has it.
const WRITING: &str = "SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off;
    SELECT set_config(name, 'lz4', false) FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)";

/// Settings of a session that reads the whole database.
pub(super) const NO_LIMITS: &str =
    "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0";

/// The oldest version of the server that has everything that the statements use.
const VERSION_MIN: i32 = 14;

/// Why a PostgreSQL database could not be opened. Each displays as one line for an operator, without the URL's password. `server` is host,
/// port and database.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages show what the fields are")]
pub enum OpenError {
    /// The URL cannot be parsed. The message does not quote it, because it may hold a password.
    #[error("the database URL is not of the form `postgres://user:password@host:port/database`")]
    Url,
    /// The server does not answer, or it starts or stops.
    #[error("the PostgreSQL database {server} cannot be opened: {reason}")]
    Unreachable { server: String, reason: String },
    /// The server refuses the user or the database, or its certificate is not accepted.
    #[error("the PostgreSQL database {server} cannot be opened: {reason}")]
    Refused { server: String, reason: String },
    /// A statement failed.
    #[error("the PostgreSQL database {server} cannot be read")]
    Failed { server: String, source: sqlx::Error },
    /// The server would lose commits, or store text otherwise than it is hashed.
    #[error("the PostgreSQL database {server} cannot be used: {reason}")]
    Unsuitable { server: String, reason: String },
    /// The database has tables of another program.
    #[error(
        "the PostgreSQL database {server} has tables of another program, such as `{table}`: name an empty database"
    )]
    Foreign { server: String, table: String },
    /// A newer release migrated the database.
    #[error(
        "the PostgreSQL database {server} has schema version {found}, newer than the {known} this program knows"
    )]
    NewerSchema { server: String, found: i64, known: i64 },
    /// An earlier release migrated the database, and it was opened only for reading.
    #[error(
        "the PostgreSQL database {server} has schema version {found} of {known}: start the gateway once, which brings it up to date"
    )]
    OldSchema { server: String, found: i64, known: i64 },
    /// The text of an applied migration has changed.
    #[error("migration {version} of the PostgreSQL database {server} was edited after it was applied")]
    EditedMigration { server: String, version: i64 },
    /// The operating system provided no randomness.
    #[error("the operating system provided no randomness: {reason}")]
    Randomness { reason: String },
    /// The stored log is damaged.
    #[error(
        "the log of the PostgreSQL database {server} is damaged: {reason}; `operation-gateway ledger fsck` says what is"
    )]
    Damaged { server: String, reason: String },
}

/// The database that a URL names.
#[derive(Clone)]
pub(crate) struct Server {
    url: String,
    options: PgConnectOptions,
}

/// Without the password.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.name()).finish()
    }
}

/// What forbids a URL in production. A URL that cannot be parsed is reported when it is opened.
pub(crate) fn production_fault(url: &str) -> Option<&'static str> {
    let options = PgConnectOptions::from_str(url).ok()?;
    if has_password(url) {
        return Some(
            "must not have a password, since more people read settings: give it in `PGPASSWORD`, or in the file that `PGPASSFILE` names",
        );
    }
    let host = options.get_host();
    let is_local = options.get_socket().is_some()
        || host == "localhost"
        || host.trim_matches(['[', ']']).parse().is_ok_and(|address: IpAddr| address.is_loopback());
    if is_local || matches!(options.get_ssl_mode(), PgSslMode::VerifyFull) {
        return None;
    }
    Some("must have `sslmode=verify-full`, since its server is another machine")
}

/// Whether the URL has a password, before the host or among its parameters.
fn has_password(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = place.split('/').next().unwrap_or_default();
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || parameters.split('&').any(|one| one.split('=').next() == Some("password"))
}

impl Server {
    pub(super) fn parse(url: &str) -> Result<Self, OpenError> {
        let options = PgConnectOptions::from_str(url).map_err(|_| OpenError::Url)?;
        if options.get_database().is_none() {
            return Err(OpenError::Url);
        }
        let options = options
            .application_name("operation-gateway")
            // Poolers refuse it, and no number here has a fraction.
            .extra_float_digits(None)
            .disable_statement_logging();
        Ok(Self { url: url.to_owned(), options })
    }

    /// How to connect, with the password that its file has now.
    pub(super) fn options(&self) -> PgConnectOptions {
        Self::parse(&self.url).map_or_else(|_| self.options.clone(), |server| server.options)
    }

    /// Host, port and database, for messages.
    pub(super) fn name(&self) -> String {
        let (host, port) = (self.options.get_host(), self.options.get_port());
        format!("`{}` at `{host}:{port}`", self.options.get_database().unwrap_or_default())
    }

    /// A connection that writes. Commits are durable when they are acknowledged.
    pub(super) async fn connect(&self) -> Result<PgConnection, OpenError> {
        self.connect_to_write().await.map_err(|error| self.failed(error))
    }

    /// As [`Self::connect`]. The server is checked each time, since it may be another one than before.
    pub(super) async fn connect_to_write(&self) -> Result<PgConnection, sqlx::Error> {
        let mut conn = self.connect_as_it_is().await?;
        begin_writing_session(&mut conn).await?;
        Ok(conn)
    }

    async fn connect_as_it_is(&self) -> Result<PgConnection, sqlx::Error> {
        let options = self.options();
        let connecting = tokio::time::timeout(CONNECT_WITHIN, PgConnection::connect_with(&options));
        connecting.await.map_err(|_| sqlx::Error::PoolTimedOut)?
    }

    /// Checks that each connection has a session of its own: a lock or a setting of one would otherwise be another's.
    pub(super) async fn check_sessions(&self) -> Result<(), OpenError> {
        let has_own = self.has_own_sessions().await.map_err(|error| self.failed(error))?;
        if has_own {
            return Ok(());
        }
        let reason = "a pooler gives its sessions to one client after the other: set `pool_mode = session` in PgBouncer, or name the server itself";
        Err(OpenError::Unsuitable { server: self.name(), reason: reason.to_owned() })
    }

    /// A pooler gives the session that was free last, or the next in turn.
    async fn has_own_sessions(&self) -> Result<bool, sqlx::Error> {
        let mut one = self.connect_as_it_is().await?;
        let mut other = self.connect_as_it_is().await?;
        let before = backend(&mut one).await?;
        let beside = backend(&mut other).await?;
        let after = backend(&mut one).await?;
        one.close().await?;
        other.close().await?;
        Ok(before == after && before != beside)
    }

    pub(super) fn failed(&self, error: sqlx::Error) -> OpenError {
        let server = self.name();
        let message = |error: &sqlx::Error| {
            error.as_database_error().map(|error| error.message().to_owned()).unwrap_or_default()
        };
        match error {
            sqlx::Error::Io(error) => OpenError::Unreachable { server, reason: error.to_string() },
            sqlx::Error::PoolTimedOut => {
                let reason = format!("it did not answer within {} s", CONNECT_WITHIN.as_secs());
                OpenError::Unreachable { server, reason }
            }
            sqlx::Error::Tls(error) => OpenError::Refused { server, reason: error.to_string() },
            error if has_code(&error, &["57P0"]) => {
                OpenError::Unreachable { server, reason: message(&error) }
            }
            error if has_code(&error, &REFUSALS) => OpenError::Refused { server, reason: message(&error) },
            sqlx::Error::Configuration(reason) => {
                OpenError::Unsuitable { server, reason: reason.to_string() }
            }
            source => OpenError::Failed { server, source },
        }
    }
}

/// Codes of a server that refuses a connection: invalid authorisation, an unknown database, too few connections, an intervention
/// (PostgreSQL, appendix A). 57P01 to 57P03, of a server that stops or starts, are no refusal.
const REFUSALS: [&str; 4] = ["28", "3D", "53", "57"];

/// Sets what a session needs, and checks its server.
pub(super) async fn begin_session(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    set(conn, SESSION).await?;
    set(conn, LIMITS).await?;
    check_server(conn).await
}

/// As [`begin_session`], for a session that writes.
async fn begin_writing_session(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    begin_session(conn).await?;
    set(conn, WRITING).await?;
    let sql = "SELECT current_setting('transaction_read_only') = 'on'";
    let is_read_only: bool = sqlx::query_scalar(sql).fetch_one(conn).await?;
    if is_read_only {
        let reason = "it takes no writes, since `default_transaction_read_only` is on: turn it off";
        return Err(sqlx::Error::Configuration(reason.into()));
    }
    Ok(())
}

pub(super) async fn set(conn: &mut PgConnection, settings: &'static str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(settings).execute(conn).await.map(drop)
}

/// The number of the server's process. The statement is not prepared, which some poolers do not take.
async fn backend(conn: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(conn).await?.try_get(0)
}

/// Checks that the server keeps what it acknowledges, stores text as it is, and shows the newest state.
///
/// # Errors
/// [`sqlx::Error::Configuration`] with what is wrong, and what to do.
async fn check_server(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    let sql = "SELECT current_setting('server_version_num')::int / 10000, current_setting('fsync') = 'on',
        current_setting('full_page_writes') = 'on', pg_is_in_recovery(), current_setting('server_encoding')";
    let (version, syncs, writes_pages, is_standby, encoding): (i32, bool, bool, bool, String) =
        sqlx::query_as(sql).fetch_one(conn).await?;
    let reason = if version < VERSION_MIN {
        format!("its server has version {version}; version {VERSION_MIN} or newer is needed")
    } else if is_standby {
        "it is a read-only standby: name the primary".to_owned()
    } else if !syncs {
        "`fsync` is off, so a crash of its server can lose acknowledged commits: turn it on".to_owned()
    } else if !writes_pages {
        "`full_page_writes` is off, so a crash of its server can damage pages: turn it on".to_owned()
    } else if encoding != "UTF8" {
        format!("its encoding is `{encoding}`: create it with `ENCODING 'UTF8'`")
    } else {
        return Ok(());
    };
    Err(sqlx::Error::Configuration(reason.into()))
}

/// Checks that the server answers on a connection.
pub(super) async fn check_alive(conn: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let answered = tokio::time::timeout(IDLE_ANSWERS_WITHIN, conn.ping()).await;
    answered.map_err(|_| sqlx::Error::PoolTimedOut)?.map(|()| true)
}

/// Checks that the server accepts as many connections as one replica may use. Other replicas and programs need theirs too.
pub(super) async fn check_room(
    server: &Server,
    conn: &mut PgConnection,
    n_used: u32,
) -> Result<(), OpenError> {
    let sql = "SELECT current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint";
    let n_accepted: i64 =
        sqlx::query_scalar(sql).fetch_one(conn).await.map_err(|error| server.failed(error))?;
    if i64::from(n_used) <= n_accepted {
        return Ok(());
    }
    let reason = format!(
        "its server accepts {n_accepted} connections, and this gateway may use {n_used}: lower `database_connections`"
    );
    Err(OpenError::Unsuitable { server: server.name(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn production_needs_an_authenticated_server_and_no_password_in_the_url() {
        let place = "gateway@db.example:5432/gateway";
        for url in [
            format!("postgres://{place}?sslmode=verify-full"),
            format!("postgresql://{place}?sslrootcert=/ca.pem&sslmode=verify-full"),
            "postgres://gateway@127.0.0.1/gateway".to_owned(),
            "postgres://gateway@[::1]:5432/gateway".to_owned(),
            "postgres://gateway@localhost/gateway".to_owned(),
            "postgres://gateway@%2Fvar%2Frun%2Fpostgresql/gateway".to_owned(),
        ] {
            assert_eq!(production_fault(&url), None, "{url}");
        }
        for url in ["", "?sslmode=require", "?sslmode=verify-ca", "?sslmode=prefer"]
            .map(|more| format!("postgres://{place}{more}"))
        {
            assert!(production_fault(&url).is_some_and(|why| why.contains("sslmode=verify-full")), "{url}");
        }
        for url in [
            "postgres://gateway:secret@127.0.0.1/gateway",
            "postgres://gateway:@127.0.0.1/gateway",
            "postgres://gateway@127.0.0.1/gateway?password=secret",
            "postgres://gateway@127.0.0.1/gateway?application_name=a&password=secret",
        ] {
            let why = production_fault(url).unwrap();
            assert!(why.contains("password") && !why.contains("secret"), "{url}: {why}");
        }
    }

    #[test]
    fn debug_output_has_no_password() {
        let server = Server::parse("postgres://gateway:secret@db.example/gateway").unwrap();
        assert_eq!(format!("{server:?}"), "Server(\"`gateway` at `db.example:5432`\")");
    }
}
