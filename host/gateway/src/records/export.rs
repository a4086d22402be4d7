//! `decisions export`.

use super::{RecordsError, lines};
use gateway_store::{Cursor, Decisions};
use std::io::Write;
use std::process::ExitCode;

/// Decisions read in one go: each page is a short read that a running gateway does not feel.
pub(super) const PAGE: usize = 256;

pub(super) async fn run(
    decisions: &Decisions,
    mut cursor: Cursor,
    n_max: usize,
    out: &mut (dyn Write + Send),
) -> Result<ExitCode, RecordsError> {
    let mut n_left = n_max;
    loop {
        let page = decisions.page(cursor, PAGE.min(n_left)).await?;
        if page.is_empty() {
            out.flush()?;
            return Ok(ExitCode::SUCCESS);
        }
        n_left = n_left.saturating_sub(page.len());
        for decision in &page {
            cursor = cursor.after(decision.place);
            writeln!(out, "{}", lines::line(decision, cursor))?;
        }
    }
}
