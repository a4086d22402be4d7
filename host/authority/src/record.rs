//! The authority's record: what it decided, and under which bundles and documents, so that neither a gateway that hides payments from it nor a
//! restart makes it forget.
//!
//! Each decision is checked against the record and written to it in one transaction, one after another, and is durable before its
//! signature exists. A crash in between counts a payment without a signed decision; the same request again counts it once.

use crate::error::{RecordError, RecordFailure, Stop, Unverified};
use crate::marks::Marks;
use crate::payments::{self, Decided};
use crate::row::integer;
use crate::verified::Verified;
use gateway_domain::error_chain;
use gateway_spending::documents;
use gateway_sqlite::{ApplicationId, Connection, Database, Job, Migration, Options, SizeFile, State, schema};
use parking_lot::Mutex;
use std::path::Path;

const APPLICATION: ApplicationId = ApplicationId::new(*b"SVCa");

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "record", sql: include_str!("../migrations/0001_record.sql") },
    Migration { version: 2, name: "spending", sql: gateway_spending::SCHEMA },
    Migration { version: 3, name: "documents", sql: documents::SCHEMA },
];

/// What an authority keeps of its decisions.
#[derive(Debug)]
pub struct Record(Kind);

#[derive(Debug)]
enum Kind {
    Durable { database: Database<Known>, size_file: SizeFile },
    Memory(Mutex<(Marks, documents::Marks)>),
}

impl Record {
    /// Opens or creates the database, and checks all of its rows. `size_file` is in another folder, and has the number of decisions;
    /// `public_key` is the authority's.
    pub async fn open(database: &Path, size_file: &Path, public_key: &[u8; 32]) -> Result<Self, RecordError> {
        let options = Options::at_path(database, APPLICATION, MIGRATIONS).create().readers(1);
        // Opening blocks on files, and its future is not `Send`, so it gets a thread of its own.
        let runtime = tokio::runtime::Handle::current();
        let opening = tokio::task::spawn_blocking(move || runtime.block_on(Database::<Known>::open(options)));
        let opened = opening.await.map_err(|_| RecordError::NotOpened)??;
        match check(&opened, database, size_file, public_key).await {
            Ok(size_file) => Ok(Self(Kind::Durable { database: opened, size_file })),
            Err(error) => {
                opened.close().await;
                Err(error)
            }
        }
    }

    /// A record of an authority in the gateway's own process: it has the bundles, until the process ends, and no payments. The gateway's
    /// store has the payments, its commits compare them, and a process that lies to itself cannot be stopped from within.
    #[must_use]
    pub fn in_memory() -> Self {
        Self(Kind::Memory(Mutex::default()))
    }

    /// Finishes pending writes and closes the database.
    pub async fn close(&self) {
        match &self.0 {
            Kind::Durable { database, .. } => database.close().await,
            Kind::Memory(_) => {}
        }
    }

    /// Checks a verified request against the record, and writes it there. Durable when this returns.
    pub(crate) async fn admit(&self, verified: Verified) -> Result<(), Unverified> {
        match &self.0 {
            Kind::Durable { database, size_file } => {
                let n_decisions = database.write(Admit(verified)).await.map_err(RecordFailure::from)??;
                Ok(size_file.raise(n_decisions).map_err(RecordFailure::from)?)
            }
            Kind::Memory(marks) => {
                let (bundles, documents) = &mut *marks.lock();
                let raised = verified.raise(bundles)?;
                documents.extend(documents.raised(&verified.documents, verified.now)?);
                if let Some(raised) = raised {
                    *bundles = raised;
                }
                Ok(())
            }
        }
    }
}

/// Compares the schema with the migrations, and the number of decisions with the one in the file, which is opened.
async fn check(
    opened: &Database<Known>,
    database: &Path,
    size_file: &Path,
    public_key: &[u8; 32],
) -> Result<SizeFile, RecordError> {
    let mut conn = opened.readers().acquire().await?;
    let found = schema::differences(schema::objects(&mut conn).await?, schema::expected(MIGRATIONS).await?);
    if let Some((object, why)) = found.first() {
        return Err(RecordError::Damaged(format!("{object}: {why}")));
    }
    let n_decisions = n_decisions(&mut conn).await?;
    let (file, known) = SizeFile::open(size_file, public_key)?;
    if known > n_decisions {
        let (database, size_file) = (database.to_owned(), size_file.to_owned());
        return Err(RecordError::Older { database, size_file, n_decisions, known });
    }
    // A power failure may have lost the last ones.
    file.raise(n_decisions)?;
    Ok(file)
}

async fn n_decisions(conn: &mut Connection) -> Result<u64, sqlx::Error> {
    Ok(conn.value::<i64>("SELECT n_decisions FROM size", &[]).await?.unsigned_abs())
}

/// What is in memory besides the database.
#[derive(Clone, Debug)]
struct Known {
    marks: Marks,
    documents: documents::Marks,
    n_decisions: u64,
}

impl State for Known {
    async fn load(conn: &mut Connection) -> Result<Self, sqlx::Error> {
        let loaded = async {
            payments::check_rows(conn).await?;
            Ok(Self {
                marks: Marks::load(conn).await?,
                documents: documents::Marks::load(conn).await?,
                n_decisions: n_decisions(conn).await?,
            })
        };
        loaded.await.map_err(|error: RecordError| match error {
            RecordError::Read(error) => error,
            other => sqlx::Error::Decode(error_chain(&other).into()),
        })
    }
}

/// Records one decision. Its output is the number of decisions.
struct Admit(Verified);

impl Job for Admit {
    type State = Known;
    type Output = Result<u64, Unverified>;

    async fn apply(&self, conn: &mut Connection, known: &mut Known) -> Result<Self::Output, sqlx::Error> {
        match self.run(conn, known).await {
            Ok(n_decisions) => Ok(Ok(n_decisions)),
            Err(Stop::Refused(refused)) => Ok(Err(refused)),
            Err(Stop::Failed(error)) => Err(error),
        }
    }
}

impl Admit {
    /// All checks come before the first write.
    async fn run(&self, conn: &mut Connection, known: &mut Known) -> Result<u64, Stop> {
        let Self(verified) = self;
        let raised = verified.raise(&known.marks)?;
        let documents = known.documents.raised(&verified.documents, verified.now)?;
        let decided = Decided::of(&verified.operation);
        let mut earlier = None;
        if let Some(decided) = &decided {
            earlier = decided.earlier(conn).await?;
            let evaluator = verified.bundle.evaluator();
            if let Some(totals) = decided.totals(conn, evaluator, verified.now, earlier).await? {
                verified.check_totals(totals)?;
            }
        }
        if raised.is_none() && documents.is_empty() && decided.is_none() {
            return Ok(known.n_decisions);
        }
        if let Some(marks) = raised {
            marks.store(conn).await?;
            known.marks = marks;
        }
        documents.store(conn).await?;
        known.documents.extend(documents);
        if let Some(decided) = decided {
            decided.record(conn, verified.now, earlier).await?;
        }
        known.n_decisions = known.n_decisions.saturating_add(1);
        conn.run("UPDATE size SET n_decisions = ?1", &[integer(known.n_decisions).into()]).await?;
        Ok(known.n_decisions)
    }
}
