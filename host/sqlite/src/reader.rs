//! Read-only access to a database that another process may be writing.

use std::fmt;

use crate::connect::Link;
use crate::error::OpenError;
use crate::files;
use crate::migrate::{Identity, check_current, identity};
use crate::options::Options;
use crate::readers::Readers;

/// One read-only connection. It never blocks a writer: under the write-ahead log each statement sees the last commit before
/// it began. Read a page at a time, because a long statement keeps the writer's log from starting over.
///
/// SQLite creates the log's two side files if they are missing, so the process must be allowed to write the database's
/// folder, though it never writes the database.
pub struct Reader {
    readers: Readers,
}

impl Reader {
    /// Opens a database whose schema is exactly that of the caller's migrations.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let path = files::existing(&options.path)?;
        files::check_header(&path)?;
        files::check_private(&path)?;
        files::check_only_name(&path)?;
        let link = Link::new(path, &options);
        let reader =
            Self { readers: Readers::open(link.clone(), 1).await.map_err(|error| link.failed(error))? };
        let checked = reader.check(&link, &options).await;
        if checked.is_err() {
            // A connection that closed later could still write side files of a database that is replaced meanwhile.
            reader.close().await;
        }
        checked.map(|()| reader)
    }

    async fn check(&self, link: &Link, options: &Options) -> Result<(), OpenError> {
        let mut conn = self.readers.acquire().await.map_err(|error| link.failed(error))?;
        if identity(link, &mut conn, options.application_id).await? == Identity::Fresh {
            let known = u32::try_from(options.migrations.len()).unwrap_or(u32::MAX);
            return Err(OpenError::OldSchema { path: link.path.clone(), found: 0, known });
        }
        check_current(link, &mut conn, options.migrations).await
    }

    /// The connection.
    pub fn readers(&self) -> &Readers {
        &self.readers
    }

    /// Waits for a running read, then closes.
    pub async fn close(&self) {
        self.readers.close().await;
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}
