//! `ledger archive`: writes the evidence of operations that ended to a file, and verifies the file. The store is only read.

use crate::log_signer::LogSigner;
use crate::settings::Settings;
use gateway_cli::evidence::{EXIT_NOT_CHECKED, verify_archive};
use gateway_cli::ledger::ArchiveOptions;
use gateway_domain::ids::OperationId;
use gateway_domain::time::EpochMs;
use gateway_engine::InclusionEvidence;
use gateway_engine::ports::{ReadLog, ReadOperations, Record, SignCheckpoint};
use gateway_evidence::{EvidenceReader, Kind, LAST_EVENT, LogProof, Page, Roots, Source, Verdict};
use gateway_seal::{durable, key_file};
use gateway_service::output::{self, EXIT_FAILED, EXIT_UNCHECKED};
use gateway_service::process::{self, Fault};
use gateway_store::Store;
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Operations that are listed in one read.
const OPERATIONS_PER_READ: u32 = 256;

/// Writes the archive. The file appears under its name only when it is complete, on disk and verified.
pub(crate) fn run(settings: &Settings, archive: &ArchiveOptions, now: EpochMs) -> ExitCode {
    process::run(write_and_verify(settings, archive, now), |_: &Fault| EXIT_UNCHECKED)
}

async fn write_and_verify(
    settings: &Settings,
    archive: &ArchiveOptions,
    now: EpochMs,
) -> Result<ExitCode, Fault> {
    let file = &archive.file;
    if file.try_exists()? {
        return Err(format!("`{}` exists already", file.display()).into());
    }
    let roots = Roots::parse(&serde_json::to_vec(&crate::evidence::roots(settings).await?)?)?;
    let signer = LogSigner::new(settings.log_origin.clone(), &*key_file::load(&settings.log.key)?);
    let store = Store::read_only(&settings.general.database_url).await?;
    let partial = PathBuf::from(format!("{}.partial", file.display()));
    let writer =
        Writer { store: &store, signer: &signer, page_bytes_max: settings.server.audit_bytes_max, now };
    let n_written = writer.write(archive, &partial).await?;
    store.close().await;
    if n_written == 0 {
        fs::remove_file(&partial)?;
        return Err("no operation ended in this time".into());
    }
    let checked = verify_archive(&partial, &EvidenceReader::new(&roots, now))?;
    output::print(&checked.lines)?;
    if checked.verdict == Verdict::Fails || checked.n_documents != n_written {
        output::print_line(format_args!(
            "nothing was archived: what was written is `{}`",
            partial.display()
        ))?;
        return Ok(ExitCode::from(EXIT_FAILED));
    }
    put_in_place(&partial, file)?;
    output::print_line(format_args!("archived {n_written} operations in `{}`", file.display()))?;
    Ok(match checked.verdict {
        Verdict::NotChecked => ExitCode::from(EXIT_NOT_CHECKED),
        Verdict::Holds | Verdict::Fails => ExitCode::SUCCESS,
    })
}

/// Gives the file its name, unless another file has it by now.
fn put_in_place(partial: &Path, file: &Path) -> std::io::Result<()> {
    fs::hard_link(partial, file)?;
    fs::remove_file(partial)?;
    durable::sync_folder_of(file)
}

struct Writer<'a> {
    store: &'a Store,
    signer: &'a LogSigner,
    page_bytes_max: usize,
    now: EpochMs,
}

impl Writer<'_> {
    /// Writes all documents to a new file, which is on disk at the end. Returns their number.
    async fn write(&self, archive: &ArchiveOptions, path: &Path) -> Result<u64, Fault> {
        // A command that was killed left it.
        if path.try_exists()? {
            fs::remove_file(path)?;
        }
        let mut options = OpenOptions::new();
        let mut out = BufWriter::new(options.write(true).create_new(true).mode(0o600).open(path)?);
        let (mut n_written, mut after) = (0, None);
        loop {
            let (from, before) = (archive.from.unwrap_or(EpochMs(0)), archive.before);
            let ids = self.store.operations_ended(after, from, before, OPERATIONS_PER_READ).await?;
            let Some(last) = ids.last() else { break };
            after = Some(*last);
            for id in ids {
                self.document(id, &mut out).await?;
                n_written += 1;
            }
        }
        let file = out.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(n_written)
    }

    /// Writes the pages of an operation's evidence, each on a line.
    async fn document(&self, id: OperationId, out: &mut impl Write) -> Result<(), Fault> {
        let unread =
            |why: &dyn std::fmt::Display| Fault::from(format!("operation `{id}` cannot be archived: {why}"));
        let record = self.store.operation_load(id).await.map_err(|error| unread(&error))?;
        let record = record.ok_or_else(|| unread(&"it does not exist"))?;
        let mut events = self.store.operation_events(id).await.map_err(|error| unread(&error))?;
        // Events committed between the two reads belong to a later record.
        events.truncate(usize::try_from(record.operation.revision).unwrap_or(usize::MAX));
        let log =
            self.inclusion(&record).await?.ok_or_else(|| unread(&"its last event is not in the log"))?;
        let source = Source {
            operation: &record.operation,
            events: &events,
            ledger_root: record.ledger_root,
            log: Some(LogProof { tlog: &log.tlog_proof, consistency: &log.consistency }),
        };
        let statement = source.statement(self.now);
        let signed = self.signer.sign_statement(LAST_EVENT, &json!(statement)).await?.to_string();
        let mut after_seq = Some(0);
        while let Some(after) = after_seq {
            let selected = Page { after_seq: Some(after), bytes_max: self.page_bytes_max };
            let stated = Some((signed.as_str(), statement.stated_at_ms));
            let written = gateway_evidence::write(Kind::Evidence, &source, stated, selected)?;
            writeln!(out, "{written}")?;
            after_seq = written.get("next_after_seq").and_then(Value::as_u64);
        }
        Ok(())
    }

    async fn inclusion(&self, record: &Record) -> Result<Option<InclusionEvidence>, Fault> {
        let Some(index) = self.store.log_index(record.operation.id, record.operation.revision).await? else {
            return Ok(None);
        };
        let checkpoint = self.signer.sign_checkpoint(self.store.log_head().await?).await?;
        Ok(InclusionEvidence::of(self.store, checkpoint, index).await?)
    }
}
