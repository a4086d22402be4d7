//! Opens, migrates, reads and group-commits a SQLite database.
//!
//! The durability rules are in this crate alone: write-ahead log, `synchronous=FULL`, one writer, and an answer only
//! after the COMMIT. It knows no table and nothing of the domain. It is not a query builder and not a pool of
//! writers.
//!
//! Start at [`Database::open`]. Reads go through [`Database::readers`]. Every write is a [`Job`] passed to
//! [`Database::write`]; jobs that wait at the same time share one transaction and one sync of the disk. Another
//! process reads the same database with a [`Reader`], which also makes copies; [`restore`] puts one in place, and a [`SizeFile`]
//! shows the next start that the copy is older than the database was.
//!
//! ```
//! use gateway_sqlite::{ApplicationId, Connection, Database, Job, Migration, Options};
//!
//! const MIGRATIONS: &[Migration] =
//!     &[Migration { version: 1, name: "note", sql: "CREATE TABLE note (text TEXT NOT NULL) STRICT" }];
//!
//! struct AddNote(&'static str);
//!
//! impl Job for AddNote {
//!     type State = ();
//!     type Output = i64;
//!
//!     async fn apply(&self, conn: &mut Connection, _state: &mut ()) -> Result<i64, sqlx::Error> {
//!         conn.value("INSERT INTO note (text) VALUES (?1) RETURNING rowid", &[self.0.into()]).await
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("notes.db");
//! let options = Options::at_path(path, ApplicationId::new(*b"NOTE"), MIGRATIONS).create();
//! let database = Database::<()>::open(options).await?;
//! let id = database.write(AddNote("durable when this returns")).await?;
//! let mut conn = database.readers().acquire().await?;
//! let text: String = conn.value("SELECT text FROM note WHERE rowid = ?1", &[id.into()]).await?;
//! # drop(conn);
//! # assert_eq!(text, "durable when this returns");
//! database.close().await;
//! # Ok(())
//! # }
//! ```

mod calls;
mod checkpointer;
mod connect;
mod connection;
mod copy;
mod counters;
mod database;
mod error;
mod files;
mod job;
mod lease;
pub mod limits;
mod migrate;
mod options;
mod queue;
mod reader;
mod readers;
mod row;
pub mod schema;
mod session;
mod size_file;
mod writer;

pub use calls::BETWEEN_STATEMENTS;
pub use connect::check_writable;
pub use connection::Connection;
pub use copy::{CopyError, restore};
pub use counters::Counters;
pub use database::Database;
pub use error::{OpenError, WriteError};
pub use job::{Job, State};
pub use options::{ApplicationId, Migration, Options};
pub use reader::Reader;
pub use readers::Readers;
pub use row::{Cell, FromCell, Names, Row};
pub use size_file::{SizeFile, SizeFileError};
