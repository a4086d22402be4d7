//! Writes previews. Each is durable before its caller gets an answer.
//!
//! Previews that arrive while a job is being written share the next job. It is one SQL text, which takes one round trip to
//! SQLite's thread.

use crate::encode::{EvaluationRow, FORMAT, row_hash};
use crate::error::{unavailable, unwritten};
use crate::sqlite::frontier::LogFrontier;
use crate::sqlite::next_index;
use gateway_engine::Unavailable;
use gateway_sqlite::{Database, Job};
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The most rows in one job. With more, sharing the round trip gains little.
const ROWS_PER_JOB_MAX: usize = 64;

/// Previews waiting to be written.
#[derive(Debug, Default)]
pub(crate) struct Previews(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    rows: Vec<Preview>,
    // INVARIANT: true exactly while a task runs `write_all`, which resets it.
    is_writing: bool,
}

#[derive(Debug)]
struct Preview {
    row: EvaluationRow,
    n_kept: u32,
    answer: Answer,
}

type Answer = oneshot::Sender<Result<(), Unavailable>>;

impl Previews {
    /// Writes the row and deletes all but the `n_kept` newest rows.
    pub(crate) async fn write(
        self: &Arc<Self>,
        database: &Arc<Database<LogFrontier>>,
        n_statements: &Arc<AtomicU64>,
        row: EvaluationRow,
        n_kept: u32,
    ) -> Result<(), Unavailable> {
        let (answer, written) = oneshot::channel();
        if self.enqueue(Preview { row, n_kept, answer }) {
            let (waiting, database) = (Arc::clone(self), Arc::clone(database));
            let n_statements = Arc::clone(n_statements);
            // A separate task, so that a caller that disconnects does not cancel other callers' previews.
            tokio::spawn(async move { waiting.write_all(&database, &n_statements).await });
        }
        written.await.unwrap_or_else(|_| Err(unavailable("a preview could not be written")))
    }

    /// Queues a preview. Returns true if no task is writing: then the caller must start one.
    fn enqueue(&self, preview: Preview) -> bool {
        let mut waiting = self.lock();
        waiting.rows.push(preview);
        !std::mem::replace(&mut waiting.is_writing, true)
    }

    async fn write_all(&self, database: &Database<LogFrontier>, n_statements: &Arc<AtomicU64>) {
        while let Some((job, answers)) = self.next(n_statements) {
            let to_unavailable = |error| unwritten(database, "a preview could not be written", &error);
            let written = database.write(job).await.map_err(to_unavailable);
            for answer in answers {
                let _caller_gone = answer.send(written.clone());
            }
        }
    }

    /// The next job, and the channels to its callers. `None` if no preview waits, which ends the writing task.
    fn next(&self, n_statements: &Arc<AtomicU64>) -> Option<(PreviewJob, Vec<Answer>)> {
        let mut waiting = self.lock();
        let n_rows = waiting.rows.len().min(ROWS_PER_JOB_MAX);
        if n_rows == 0 {
            waiting.is_writing = false;
            return None;
        }
        let taken: Vec<_> = waiting.rows.drain(..n_rows).collect();
        drop(waiting);
        let n_kept = taken.iter().map(|preview| preview.n_kept).max().unwrap_or_default();
        let (rows, answers) = taken.into_iter().map(|preview| (preview.row, preview.answer)).unzip();
        Some((PreviewJob { rows, n_kept, n_statements: Arc::clone(n_statements) }, answers))
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct PreviewJob {
    // INVARIANT: never empty; `Previews::next` puts at least one row in.
    rows: Vec<EvaluationRow>,
    n_kept: u32,
    n_statements: Arc<AtomicU64>,
}

impl Job for PreviewJob {
    type State = LogFrontier;
    type Output = ();

    async fn apply(&self, conn: &mut SqliteConnection, _log: &mut LogFrontier) -> Result<(), sqlx::Error> {
        let first = next_index(&mut *conn, "policy_previews").await?;
        let n_rows = i64::try_from(self.rows.len()).unwrap_or(i64::MAX);
        let mut script: QueryBuilder<Sqlite> = QueryBuilder::new(
            "INSERT INTO policy_previews (preview_index, at_ms, format, row_hash, input, outcome) ",
        );
        script.push_values((first..).zip(&self.rows), |mut values, (index, row)| {
            values.push_bind(index).push_bind(row.at_ms).push_bind(FORMAT);
            values.push_bind(row_hash(index, row.contents).as_bytes().to_vec());
            values.push_bind(row.input.as_str()).push_bind(row.outcome.as_str());
        });
        script.push(";\n");
        let dropped = first.saturating_add(n_rows).saturating_sub(1).saturating_sub(i64::from(self.n_kept));
        if dropped > 0 {
            script.push("DELETE FROM policy_previews WHERE preview_index <= ").push_bind(dropped);
            script
                .push(";\nINSERT INTO policy_previews_dropped (id, through_index) VALUES (1, ")
                .push_bind(dropped);
            script.push(
                ") ON CONFLICT (id) DO UPDATE SET through_index = max(through_index, excluded.through_index);\n",
            );
        }
        script.build().execute(conn).await?;
        self.n_statements.fetch_add(if dropped > 0 { 4 } else { 2 }, Ordering::Relaxed);
        Ok(())
    }
}
