//! Writes previews. Each is durable before its caller gets an answer.
//!
//! Previews that arrive while others are being written are written together.

use crate::change::PreviewsWrite;
use crate::database::Database;
use crate::error::unavailable;
use crate::record::encode::EvaluationRow;
use gateway_engine::Unavailable;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The most rows that are written together. With more, sharing the round trip gains little.
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
        database: &Arc<Database>,
        row: EvaluationRow,
        n_kept: u32,
    ) -> Result<(), Unavailable> {
        let (answer, written) = oneshot::channel();
        if self.enqueue(Preview { row, n_kept, answer }) {
            let (waiting, database) = (Arc::clone(self), Arc::clone(database));
            // A separate task, so that a caller that disconnects does not cancel other callers' previews.
            tokio::spawn(async move { waiting.write_all(&database).await });
        }
        written.await.unwrap_or_else(|_| Err(unavailable("a preview could not be written")))
    }

    /// Queues a preview. Returns true if no task is writing: then the caller must start one.
    fn enqueue(&self, preview: Preview) -> bool {
        let mut waiting = self.0.lock();
        waiting.rows.push(preview);
        !std::mem::replace(&mut waiting.is_writing, true)
    }

    async fn write_all(&self, database: &Database) {
        while let Some((rows, n_kept, answers)) = self.next() {
            let written =
                database.write(PreviewsWrite { rows, n_kept }, "a preview could not be written").await;
            for answer in answers {
                let _caller_gone = answer.send(written.clone());
            }
        }
    }

    /// The next rows, at least one, with the number of rows to keep, and the channels to their callers. `None` if no preview
    /// waits, which ends the writing task.
    fn next(&self) -> Option<(Vec<EvaluationRow>, u32, Vec<Answer>)> {
        let mut waiting = self.0.lock();
        let n_rows = waiting.rows.len().min(ROWS_PER_JOB_MAX);
        if n_rows == 0 {
            waiting.is_writing = false;
            return None;
        }
        let taken: Vec<_> = waiting.rows.drain(..n_rows).collect();
        drop(waiting);
        let n_kept = taken.iter().map(|preview| preview.n_kept).max().unwrap_or_default();
        let (rows, answers) = taken.into_iter().map(|preview| (preview.row, preview.answer)).unzip();
        Some((rows, n_kept, answers))
    }
}
