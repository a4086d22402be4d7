//! `operation-gateway ledger fsck`, `backup` and `restore`. `ledger fsck` checks that the store's records agree with each other, and
//! that the files of each stored bundle have the bundle's hash; the other two check the copy in the same way.

use crate::progress::Progress;
use clap::{Args, Subcommand};
use gateway_domain::time::EpochMs;
use gateway_engine::Unavailable;
use gateway_engine::ports::StoredBundle;
use gateway_policy::BundleFiles;
use gateway_policy::bundle::{BundleError, MANIFEST_FILE, Manifest};
use gateway_service::output::{self, EXIT_FAILED, EXIT_UNCHECKED};
use gateway_service::process::{self, Fault};
use gateway_store::{Checked, Finding, Fsck};
use serde_json::{Value, json};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub enum LedgerCommand<S: Args> {
    /// Check that the store's records agree with each other; a gateway may be running
    #[command(
        after_help = "Exit code 0: no findings. 1: findings, each one line with table and row. 2: the database cannot be read."
    )]
    Fsck {
        #[command(flatten)]
        settings: S,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Write the evidence of operations that ended to a file, one document on each line, and verify the file; a gateway may be running
    #[command(
        after_help = "Nothing is deleted from the database. `evidence verify FILE` verifies the file again. Exit code 0: the file is \
                      complete and holds. 1: a check fails, and the file was not put in place. 2: nothing was written. 3: the file is \
                      complete, and a check could not be made."
    )]
    Archive {
        #[command(flatten)]
        archive: ArchiveOptions,
        #[command(flatten)]
        settings: S,
    },
}

#[derive(Debug, Args)]
pub struct ArchiveOptions {
    /// The archive, which must not exist yet
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only operations whose last event is from before this day (YYYY-MM-DD, UTC)
    #[arg(long, value_name = "DATE", value_parser = parse_date)]
    pub before: EpochMs,
    /// Only operations whose last event is from this day or later
    #[arg(long, value_name = "DATE", value_parser = parse_date)]
    pub from: Option<EpochMs>,
}

fn parse_date(text: &str) -> Result<EpochMs, &'static str> {
    EpochMs::of_day(text).ok_or("must be a day from 1970 on, as `YYYY-MM-DD`")
}

/// Runs `ledger fsck`, printing to standard output.
#[must_use]
pub fn fsck(database_url: &str, json: bool) -> ExitCode {
    process::run(check(database_url, json), |_: &Fault| EXIT_UNCHECKED)
}

async fn check(database_url: &str, json: bool) -> Result<ExitCode, Fault> {
    let progress = Progress::new("checked");
    let mut report = Report { json, progress: &progress, n_findings: 0, printed: Ok(()) };
    let mut fsck = Fsck::open(database_url).await?;
    let checked = fsck
        .check_with_progress(&mut |finding| report.add(&finding), &mut |n_done, n_all| {
            progress.report(n_done, n_all);
        })
        .await?;
    progress.clear();
    check_bundles(&mut fsck, &mut |finding| report.add(&finding)).await?;
    fsck.close().await;
    let n_findings = report.finish(&checked)?;
    Ok(if n_findings == 0 { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

/// Runs `backup`: makes a copy and checks it.
#[must_use]
pub fn backup(database_url: &str, file: &Path) -> ExitCode {
    let backup = async {
        let progress = Progress::new("copied");
        gateway_store::backup(database_url, file, |n_done, n_all| progress.report(n_done, n_all)).await?;
        progress.clear();
        let checked = check(&location(file), false).await?;
        output::print_line(format_args!("the backup is `{}`", file.display()))?;
        Ok(checked)
    };
    process::run(backup, |_: &Fault| EXIT_UNCHECKED)
}

/// Runs `restore`: checks a copy and puts it in the place of the store.
#[must_use]
pub fn restore(database_url: &str, file: &Path) -> ExitCode {
    let restore = async {
        let checked = check(&location(file), false).await?;
        if checked != ExitCode::SUCCESS {
            return Err("the backup is damaged, and nothing was changed".into());
        }
        let kept = gateway_store::restore(database_url, file).await?;
        output::print_line(format_args!("restored `{}`", file.display()))?;
        if let Some(kept) = kept {
            let kept = kept.display();
            output::print_line(format_args!("the database that was there is kept as `{kept}`"))?;
        }
        Ok(ExitCode::SUCCESS)
    };
    process::run(restore, |_: &Fault| EXIT_UNCHECKED)
}

/// The file as a location that the store opens: never as a URL.
fn location(file: &Path) -> String {
    format!("sqlite://{}", file.display())
}

/// Compares the files of each stored bundle with its hash. Signatures are not checked: the trust roots change over time.
async fn check_bundles(fsck: &mut Fsck, found: &mut (dyn FnMut(Finding) + Send)) -> Result<(), Unavailable> {
    for hash in fsck.bundle_hashes().await? {
        let bundle = fsck.bundle(hash).await?;
        let row = format!("bundle_hash {hash}");
        let finding = |table: &str, what| Finding { table: table.to_owned(), row: row.clone(), what };
        let bundle_id = bundle.bundle_id.clone();
        match read_manifest(bundle) {
            Err(error) => found(finding("policy_bundle_files", error.to_string())),
            Ok((manifest, hash_matches)) => {
                if !hash_matches {
                    found(finding("policy_bundle_files", "the files have another hash".to_owned()));
                }
                if manifest.bundle_id != bundle_id {
                    found(finding("policy_bundles", "`bundle_id` is not the manifest's".to_owned()));
                }
            }
        }
    }
    Ok(())
}

/// Reads the manifest, which must list exactly the stored files; returns it, and whether it has the stored hash.
fn read_manifest(bundle: StoredBundle) -> Result<(Manifest, bool), BundleError> {
    let files = BundleFiles::new(bundle.files)?;
    files.check_listed()?;
    let manifest = Manifest::parse(files.get(MANIFEST_FILE)?)?;
    let hash_matches = manifest.hash()? == bundle.bundle_hash;
    Ok((manifest, hash_matches))
}

/// Prints findings as they come, and a summary at the end.
struct Report<'a> {
    json: bool,
    progress: &'a Progress,
    n_findings: u64,
    /// The result of the last line.
    printed: std::io::Result<()>,
}

impl Report<'_> {
    fn add(&mut self, finding: &Finding) {
        self.n_findings = self.n_findings.saturating_add(1);
        let Finding { table, row, what } = finding;
        if self.json {
            self.json(&json!({ "table": table, "row": row, "what": what }));
        } else {
            self.line(finding);
        }
    }

    fn line(&mut self, line: impl Display) {
        self.progress.clear();
        self.printed = output::print_line(line);
    }

    fn json(&mut self, value: &Value) {
        self.progress.clear();
        self.printed = output::print_json(value);
    }

    fn finish(mut self, checked: &Checked) -> std::io::Result<u64> {
        let Checked { n_events, n_operations, n_keys, n_decisions, n_previews, n_activations, head } =
            *checked;
        if self.json {
            let head = head.map(|head| json!({ "n_leaves": head.n_leaves, "root": head.root }));
            let summary = json!({
                "n_findings": self.n_findings, "n_events": n_events, "n_operations": n_operations,
                "n_keys": n_keys, "n_decisions": n_decisions, "n_previews": n_previews,
                "n_activations": n_activations, "head": head,
            });
            self.json(&summary);
        } else {
            self.line(format_args!(
                "checked {n_events} events of {n_operations} operations, {n_keys} keys, {n_decisions} refusals, \
                 {n_previews} previews, {n_activations} activations"
            ));
            match head {
                Some(head) => {
                    self.line(format_args!("head of the log: {} entries, root {}", head.n_leaves, head.root))
                }
                None => self.line("head of the log: unknown, because entries are missing"),
            }
            let verdict = match self.n_findings {
                0 => "nothing is wrong".to_owned(),
                n_findings => format!("{n_findings} findings"),
            };
            self.line(verdict);
        }
        self.printed.map(|()| self.n_findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::time::DAY_MS;

    #[test]
    fn dates_are_days_of_the_calendar() {
        let days = |text| parse_date(text).map(|at| at.0 / DAY_MS);
        assert_eq!(days("1970-01-01"), Ok(0));
        assert_eq!(days("2000-02-29"), Ok(11_016));
        assert_eq!(days("2026-11-25"), Ok(20_782));
        for wrong in [
            "",
            "2026",
            "2026-11",
            "1969-12-31",
            "2026-02-29",
            "2100-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-11-31",
            "2026-11-00",
            "2026-1-01",
            "+026-01-01",
            "2026-11-25T00",
        ] {
            assert!(days(wrong).is_err(), "{wrong}");
        }
    }
}
