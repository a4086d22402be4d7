//! The options for opening a database.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::OpenError;
use crate::limits::{BUSY_TIMEOUT_DEFAULT, READERS_DEFAULT};

/// Four bytes in the header of the database file that name the program it belongs to (SQLite's `application_id`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApplicationId(i32);

impl ApplicationId {
    /// The id made of four bytes, preferably readable ASCII. Four zeros mean "none" to SQLite: a database created with them
    /// cannot be opened again.
    pub const fn new(tag: [u8; 4]) -> Self {
        Self(i32::from_be_bytes(tag))
    }

    /// The value of `PRAGMA application_id`.
    pub(crate) const fn get(self) -> i32 {
        self.0
    }
}

/// One step of the schema. A released step is never edited: the database holds a checksum of its text.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// Position in the list, from 1 and without gaps.
    pub version: u32,
    /// A short description, for the table of applied migrations.
    pub name: &'static str,
    /// Statements, separated by `;`. They run in one transaction.
    pub sql: &'static str,
}

/// The options of [`Database::open`](crate::Database::open).
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) path: PathBuf,
    pub(crate) application_id: ApplicationId,
    pub(crate) migrations: &'static [Migration],
    pub(crate) create: bool,
    pub(crate) secure_delete: bool,
    pub(crate) readers: u32,
    pub(crate) busy_timeout: Duration,
}

impl Options {
    /// The database that `location` names: `sqlite://path`, `sqlite:path` or a bare path, relative to the
    /// working directory unless it starts with `/`. The path is used literally: no `?` options, no percent escapes.
    ///
    /// # Errors
    ///
    /// [`OpenError::NotAFile`] if it has another scheme, is in memory, is empty, or has options.
    pub fn at(
        location: &str,
        application_id: ApplicationId,
        migrations: &'static [Migration],
    ) -> Result<Self, OpenError> {
        Ok(Self::at_path(path_of(location)?, application_id, migrations))
    }

    /// The database in the file at `path`.
    pub fn at_path(
        path: impl AsRef<Path>,
        application_id: ApplicationId,
        migrations: &'static [Migration],
    ) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            application_id,
            migrations,
            create: false,
            secure_delete: false,
            readers: READERS_DEFAULT,
            busy_timeout: BUSY_TIMEOUT_DEFAULT,
        }
    }

    /// Whether a file exists at the path.
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Creates a missing folder (mode 0700) and file (mode 0600). Existing ones keep their mode, and are refused if others
    /// may read or write them.
    #[must_use]
    pub fn create(mut self) -> Self {
        self.create = true;
        self
    }

    /// Overwrites deleted rows with zeros. The log keeps old pages until it is rewritten: see
    /// [`Database::checkpoint`](crate::Database::checkpoint).
    #[must_use]
    pub fn secure_delete(mut self) -> Self {
        self.secure_delete = true;
        self
    }

    /// Number of read-only connections, at least 1; [`READERS_DEFAULT`] unless set.
    #[must_use]
    pub fn readers(mut self, n_readers: u32) -> Self {
        self.readers = n_readers.max(1);
        self
    }

    /// How long to wait for another connection's lock; [`BUSY_TIMEOUT_DEFAULT`] unless set.
    #[must_use]
    pub fn busy_timeout(mut self, wait_max: Duration) -> Self {
        self.busy_timeout = wait_max;
        self
    }
}

fn path_of(location: &str) -> Result<&str, OpenError> {
    let not_a_file = |reason| Err(OpenError::NotAFile { reason });
    let path = match location.split_once(':') {
        Some(("sqlite", rest)) => rest.strip_prefix("//").unwrap_or(rest),
        Some((_, rest)) if rest.starts_with("//") => return not_a_file("its scheme is not `sqlite`"),
        _ => location,
    };
    match path {
        "" => not_a_file("it names no path"),
        ":memory:" => not_a_file("a database in memory is not durable"),
        _ if path.contains('?') => not_a_file("options after `?` are not supported"),
        _ => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::path_of;

    #[test]
    fn locations_are_parsed_or_refused() {
        let cases = [
            ("sqlite://data/gateway.db", Ok("data/gateway.db")),
            ("sqlite:///var/lib/gateway.db", Ok("/var/lib/gateway.db")),
            ("sqlite:gateway.db", Ok("gateway.db")),
            ("/var/lib/gateway.db", Ok("/var/lib/gateway.db")),
            ("a:b.db", Ok("a:b.db")),
            (
                "postgres://user:secret@host/db",
                Err("the database is not a SQLite file: its scheme is not `sqlite`"),
            ),
            (
                "sqlite::memory:",
                Err("the database is not a SQLite file: a database in memory is not durable"),
            ),
            ("sqlite://", Err("the database is not a SQLite file: it names no path")),
            (
                "sqlite://x.db?mode=rw",
                Err("the database is not a SQLite file: options after `?` are not supported"),
            ),
        ];
        for (location, expected) in cases {
            let got = path_of(location).map_err(|error| error.to_string());
            assert_eq!(got, expected.map_err(str::to_owned), "{location}");
        }
    }
}
