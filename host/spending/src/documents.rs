//! The newest signed documents that an authority or a node admitted operations with, so that a gateway cannot go back to older ones.

use gateway_domain::canonical::{self, CanonicalError};
use gateway_domain::ids::Hex32;
use gateway_domain::policy::SignedDocument;
use gateway_domain::policy::document::{DocumentError, Mark};
use gateway_domain::time::EpochMs;
use gateway_sqlite::{Cell, Connection, Row};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a migration of SQLite creates.
pub const SCHEMA: &str = "-- The newest document of each name that an operation was admitted with.
CREATE TABLE document (
    name TEXT NOT NULL PRIMARY KEY,
    sequence INTEGER NOT NULL CHECK (sequence >= 0),
    document_hash TEXT NOT NULL,
    -- When the first operation was admitted with it.
    since_ms INTEGER NOT NULL,
    -- The hash of the one before it; zeros for none.
    previous_hash TEXT NOT NULL,
    -- SHA-256 over the tag svc/document-row/v1 and the canonical JSON of the other columns.
    row_hash TEXT NOT NULL
) STRICT, WITHOUT ROWID;";

/// The newest documents by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(BTreeMap<String, Mark>);

impl Marks {
    /// Reads all, and compares each row with its hash.
    ///
    /// # Errors
    /// The database's; [`sqlx::Error::Decode`] for a row that is not as it was written.
    pub async fn load(conn: &mut Connection) -> Result<Self, sqlx::Error> {
        let sql = "SELECT name, sequence, document_hash, since_ms, previous_hash, row_hash FROM document";
        let mark = |row: &Row| {
            let damaged = || {
                let name = row.text("name").unwrap_or_default();
                sqlx::Error::Decode(format!("the row of document `{name}` is damaged").into())
            };
            parse(row).ok_or_else(damaged)
        };
        conn.rows(sql, &[]).await?.iter().map(mark).collect::<Result<_, _>>().map(Self)
    }

    /// The marks that an admission with these documents raises.
    ///
    /// # Errors
    /// [`DocumentError::Older`] for the first that is older than one before.
    pub fn raised(&self, documents: &[Arc<SignedDocument>], now: EpochMs) -> Result<Self, DocumentError> {
        let mut raised = BTreeMap::new();
        for document in documents {
            let name = &document.document.name;
            let mark = Mark::raised(self.0.get(name).copied(), document, now)?;
            raised.extend(mark.map(|mark| (name.clone(), mark)));
        }
        Ok(Self(raised))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts these in the place of those with the same names.
    pub fn extend(&mut self, raised: Self) {
        self.0.extend(raised.0);
    }

    /// Writes these in the place of those with the same names.
    ///
    /// # Errors
    /// The database's.
    pub async fn store(&self, conn: &mut Connection) -> Result<(), sqlx::Error> {
        for (name, mark) in &self.0 {
            let row_hash = row_hash(name, mark).map_err(|error| sqlx::Error::Encode(error.into()))?;
            let sql = "INSERT OR REPLACE INTO document \
                       (name, sequence, document_hash, since_ms, previous_hash, row_hash) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let Mark { sequence, hash, since, previous } = mark;
            let numbers = [super::column(*sequence), super::column(since.0)].map(Cell::from);
            let [sequence, since] = numbers;
            let [hash, previous, row_hash] = [hash, previous, &row_hash].map(|it| Cell::from(it.to_string()));
            conn.run(sql, &[name.as_str().into(), sequence, hash, since, previous, row_hash]).await?;
        }
        Ok(())
    }
}

/// Whether a row of `document` is as it was written.
#[must_use]
pub fn is_intact(row: &Row) -> bool {
    parse(row).is_some()
}

fn parse(row: &Row) -> Option<(String, Mark)> {
    let hash = |column| row.text(column)?.parse::<Hex32>().ok();
    let number = |column| u64::try_from(row.integer(column)?).ok();
    let name = row.text("name")?.to_owned();
    let mark = Mark {
        sequence: number("sequence")?,
        hash: hash("document_hash")?,
        since: EpochMs(number("since_ms")?),
        previous: hash("previous_hash")?,
    };
    (row_hash(&name, &mark).ok()? == hash("row_hash")?).then_some((name, mark))
}

fn row_hash(name: &str, Mark { sequence, hash, since, previous }: &Mark) -> Result<Hex32, CanonicalError> {
    canonical::digest("svc/document-row/v1", &(name, sequence, hash, since, previous))
}
