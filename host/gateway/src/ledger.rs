//! `ledger fsck`: the store checks itself, and bundles are checked by those who know bundles.

mod bundles;

use crate::cli::ledger::Fsck as Asked;
use crate::settings::Settings;
use gateway_engine::Unavailable;
use gateway_store::{Checked, Finding, Fsck, OpenError};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

/// Something is wrong.
const EXIT_FOUND: u8 = 1;
/// Nothing can be said.
const EXIT_UNREADABLE: u8 = 2;

/// Why nothing can be said: one line for an operator.
#[derive(Debug, thiserror::Error)]
enum LedgerError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error("the answer cannot be written")]
    Output(#[from] std::io::Error),
}

/// Carries the command out, printing to standard output.
pub(crate) fn main(asked: Asked, settings: &Settings) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(asked, settings, &mut std::io::stdout())),
        Err(error) => Err(error.into()),
    };
    match done {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(EXIT_FOUND),
        Err(error) => crate::complain(&[gateway_domain::chain(&error)], EXIT_UNREADABLE),
    }
}

/// How much is wrong.
async fn run(asked: Asked, settings: &Settings, out: &mut (dyn Write + Send)) -> Result<u64, LedgerError> {
    let mut report = Report { json: asked.json, out, n_findings: 0, broken: None };
    let mut fsck = Fsck::open(&settings.database_url).await?;
    let checked = fsck.check(&mut |finding| report.tell(&finding)).await?;
    bundles::check(&mut fsck, &mut |finding| report.tell(&finding)).await?;
    fsck.close().await;
    report.end(&checked)
}

/// Lines, as findings come.
struct Report<'a> {
    json: bool,
    out: &'a mut (dyn Write + Send),
    n_findings: u64,
    /// Why nothing more can be printed.
    broken: Option<std::io::Error>,
}

impl Report<'_> {
    fn tell(&mut self, finding: &Finding) {
        self.n_findings = self.n_findings.saturating_add(1);
        let Finding { table, row, what } = finding;
        let line = if self.json {
            json!({ "table": table, "row": row, "what": what }).to_string()
        } else {
            finding.to_string()
        };
        self.line(&line);
    }

    fn line(&mut self, line: &str) {
        if self.broken.is_none() {
            self.broken = writeln!(self.out, "{line}").err();
        }
    }

    fn end(mut self, checked: &Checked) -> Result<u64, LedgerError> {
        let Checked { n_events, n_operations, n_keys, n_decisions, n_previews, n_activations, head } =
            *checked;
        if self.json {
            let head = head.map(|head| json!({ "n_leaves": head.n_leaves, "root": head.root }));
            let summary = json!({
                "n_findings": self.n_findings, "n_events": n_events, "n_operations": n_operations,
                "n_keys": n_keys, "n_decisions": n_decisions, "n_previews": n_previews,
                "n_activations": n_activations, "head": head,
            });
            self.line(&summary.to_string());
        } else {
            self.line(&format!(
                "checked {n_events} events of {n_operations} operations, {n_keys} keys, {n_decisions} refusals, \
                 {n_previews} previews, {n_activations} activations"
            ));
            match head {
                Some(head) => {
                    self.line(&format!("head of the log: {} entries, root {}", head.n_leaves, head.root))
                }
                None => self.line("head of the log: not known, entries are missing"),
            }
            let verdict = match self.n_findings {
                0 => "nothing is wrong".to_owned(),
                n_findings => format!("{n_findings} findings"),
            };
            self.line(&verdict);
        }
        if self.broken.is_none() {
            self.broken = self.out.flush().err();
        }
        // Whoever reads has read enough.
        let broken = self.broken.filter(|error| error.kind() != std::io::ErrorKind::BrokenPipe);
        broken.map_or(Ok(self.n_findings), |error| Err(error.into()))
    }
}
