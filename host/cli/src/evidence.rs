//! `operation-gateway evidence verify` and `evidence audit`: check evidence offline, alone or against the logs of the nodes.

use crate::records::bundle::load_unverified;
use crate::records::replay;
use crate::{finish, with_path};
use clap::{Args, Subcommand};
use gateway_domain::ids::OperationId;
use gateway_domain::log::WitnessPolicy;
use gateway_domain::log::witness_policy::WitnessPolicyError;
use gateway_domain::operation::Evaluation;
use gateway_domain::time::EpochMs;
use gateway_evidence::verify::{Check, Report, Status};
use gateway_evidence::{EvidenceReader, NodeLogFile, NodeLogs, RerunPolicy, Roots, Verdict, audit, verify};
use gateway_policy::{Evaluator, PolicyEngine};
use gateway_service::output::{EXIT_FAILED, EXIT_UNCHECKED, Lines};
use gateway_service::process::Fault;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code when no check fails, and one could not be made.
pub const EXIT_NOT_CHECKED: u8 = 3;

/// Largest file that is read, in bytes: thirty times the largest export of the gateway.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

#[derive(Debug, Subcommand)]
pub enum EvidenceCommand<S: Args> {
    /// Check everything that an evidence file or an audit log states
    #[command(
        after_help = "Exit code 0: every check that applies was made and holds. 1: a check fails; each failure is named with its \
                      place in the file. 2: nothing was checked: a file or the roots cannot be read. 3: no check fails, and one \
                      could not be made; each of these is named with the reason."
    )]
    Verify(Verify),
    /// Check that evidence shows every signature share in the logs of the nodes
    #[command(
        after_help = "Verifies each document as `evidence verify --nodes` does, and then names every operation for which a node \
                      released a share and whose evidence is not among the files. Exit code 0: every check that applies was made \
                      and holds. 1: a check fails. 2: nothing was checked: a file cannot be read. 3: no check fails, and one \
                      could not be made."
    )]
    Audit(Audit),
    /// Print the roots of trust that readers of this deployment's evidence need
    Roots {
        /// Also list the facts that these settings give to policies, and the pinned bundles: readers then check both, and evidence of
        /// decisions under other settings fails until their values are added
        #[arg(long)]
        with_policy: bool,
        #[command(flatten)]
        settings: S,
    },
}

#[derive(Debug, Args)]
pub struct Verify {
    /// The document; if it has several pages, all of them. Or an archive that `ledger archive` wrote
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The roots of trust, obtained from a trusted source
    #[arg(long = "trust", value_name = "ROOTS")]
    roots: PathBuf,
    /// Evaluate the policy again with this bundle; may be repeated, once for each bundle that decided
    #[arg(long = "bundle", value_name = "DIRECTORY")]
    bundles: Vec<PathBuf>,
    /// Compare the document with this log of a node, as `nodes log` writes it; may be repeated, once for each node
    #[arg(long = "nodes", value_name = "LOG")]
    nodes: Vec<PathBuf>,
    /// Fail unless a quorum of witnesses cosigned the log, by this policy (C2SP tlog-policy)
    #[arg(long = "witness-policy", value_name = "FILE")]
    witnesses: Option<PathBuf>,
    /// Fail unless the document is about this operation
    #[arg(long = "operation", value_name = "ID")]
    operation_id: Option<OperationId>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct Audit {
    /// Evidence, in any order; of a document with several pages, all of them. Archives that `ledger archive` wrote, too
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The roots of trust, obtained from a trusted source
    #[arg(long = "trust", value_name = "ROOTS")]
    roots: PathBuf,
    /// A log of a node, as `nodes log` writes it; may be repeated, once for each node
    #[arg(long = "nodes", value_name = "LOG", required = true)]
    nodes: Vec<PathBuf>,
}

/// Checks a document and prints the result of each check.
#[must_use]
pub fn run(verify: &Verify, now: EpochMs) -> ExitCode {
    print(check(verify, now))
}

/// Checks documents against whole logs, and prints what fails or could not be checked.
#[must_use]
pub fn run_audit(arguments: &Audit, now: EpochMs) -> ExitCode {
    print(check_all(arguments, now))
}

fn print(checked: Result<(Lines, Verdict), Fault>) -> ExitCode {
    let code = |verdict| match verdict {
        Verdict::Holds => ExitCode::SUCCESS,
        Verdict::Fails => ExitCode::from(EXIT_FAILED),
        Verdict::NotChecked => ExitCode::from(EXIT_NOT_CHECKED),
    };
    finish(checked.map(|(lines, verdict)| (lines, code(verdict))), EXIT_UNCHECKED)
}

fn check(arguments: &Verify, now: EpochMs) -> Result<(Lines, Verdict), Fault> {
    let Verify { files, roots, bundles, nodes, witnesses, operation_id, json } = arguments;
    let roots = read_roots(roots)?;
    let nodes = if nodes.is_empty() { None } else { Some(read_logs(nodes, &roots)?) };
    let bundles = if bundles.is_empty() { None } else { Some(Bundles::load(bundles)?) };
    let rerun = bundles.as_ref().map(|bundles| bundles as &dyn RerunPolicy);
    let witnesses = witnesses.as_deref().map(read_witnesses).transpose()?;
    let reader = EvidenceReader {
        roots: &roots,
        now,
        rerun,
        operation_id: *operation_id,
        nodes: nodes.as_ref(),
        witnesses: witnesses.as_ref(),
    };
    if let [file] = &files[..]
        && is_archive(file)?
    {
        return check_archive(file, &reader, *json);
    }
    let pages = files.iter().map(|file| read_page(file)).collect::<Result<_, _>>()?;
    let report = verify(pages, &reader);
    let verdict = report.verdict();
    let mut lines = Lines::new();
    if *json {
        lines.add_json_pretty(&json!({ "verdict": verdict, "checks": report.checks }))?;
    } else {
        add_report(&mut lines, &report);
    }
    Ok((lines, verdict))
}

/// Checks the documents of an archive, or the one of the reader's operation.
fn check_archive(file: &Path, reader: &EvidenceReader<'_>, json: bool) -> Result<(Lines, Verdict), Fault> {
    let CheckedArchive { mut lines, verdict, n_documents } = verify_archive(file, reader)?;
    if n_documents == 0 {
        return Err(format!("`{}` has no document to verify", file.display()).into());
    }
    if json {
        let document = json!({ "verdict": verdict, "n_documents": n_documents, "lines": lines.as_str().lines().collect::<Vec<_>>() });
        let mut lines = Lines::new();
        lines.add_json_pretty(&document)?;
        return Ok((lines, verdict));
    }
    lines.add(format_args!("{n_documents} documents"));
    lines.add(summary(verdict, "the archive is not valid"));
    Ok((lines, verdict))
}

/// The result of verifying an archive.
#[derive(Debug)]
pub struct CheckedArchive {
    /// A line for each failure, and for each check that could not be made in some documents.
    pub lines: Lines,
    pub verdict: Verdict,
    pub n_documents: u64,
}

/// Verifies an archive: a page on each line, the pages of a document one after the other. Only one document is in memory. With an
/// operation in `reader`, other documents are skipped.
pub fn verify_archive(path: &Path, reader: &EvidenceReader<'_>) -> Result<CheckedArchive, Fault> {
    let mut checked = CheckedArchive { lines: Lines::new(), verdict: Verdict::Holds, n_documents: 0 };
    let mut unchecked = BTreeMap::new();
    for_each_document(path, &mut |id, pages| checked.add(id, pages, reader, &mut unchecked))?;
    for (name, n_documents) in unchecked {
        let why =
            format!("not made in {n_documents} of the documents; `evidence verify --operation ID` says why");
        add_line(&mut checked.lines, "--  ", &name, &why);
    }
    Ok(checked)
}

impl CheckedArchive {
    fn add(
        &mut self,
        id: &str,
        pages: Vec<Value>,
        reader: &EvidenceReader<'_>,
        unchecked: &mut BTreeMap<String, u64>,
    ) {
        if reader.operation_id.is_some_and(|wanted| id.parse() != Ok(wanted)) {
            return;
        }
        self.n_documents = self.n_documents.saturating_add(1);
        let report = verify(pages, reader);
        for Check { name, status } in &report.checks {
            match status {
                // There may be millions of these.
                Status::NotChecked(_) if reader.operation_id.is_none() => {
                    let n_documents = unchecked.entry((*name).to_owned()).or_default();
                    *n_documents = n_documents.saturating_add(1);
                }
                Status::NotChecked(_) | Status::Holds(_) | Status::Fails(_) => {
                    add_status(&mut self.lines, &format!("{id}: {name}"), status, false);
                }
            }
        }
        self.verdict = worse(self.verdict, report.verdict());
    }
}

/// Reads the documents of an archive, of which one at a time is in memory.
fn for_each_document(path: &Path, each: &mut dyn FnMut(&str, Vec<Value>)) -> Result<(), Fault> {
    let mut document: Option<(String, Vec<Value>)> = None;
    for_each_page(path, &mut |page| {
        let id = id_of(&page).to_owned();
        match &mut document {
            Some((of, pages)) if *of == id => pages.push(page),
            other => {
                let before = other.replace((id, vec![page]));
                before.into_iter().for_each(|(id, pages)| each(&id, pages));
            }
        }
    })?;
    document.into_iter().for_each(|(id, pages)| each(&id, pages));
    Ok(())
}

fn id_of(page: &Value) -> &str {
    page.get("operation_id").and_then(Value::as_str).unwrap_or_default()
}

fn open(path: &Path) -> Result<BufReader<File>, Fault> {
    Ok(BufReader::new(File::open(path).map_err(|error| with_path(path, &error))?))
}

/// Reads the lines of an archive, each of which must be a page and end with a line feed.
fn for_each_page(path: &Path, each: &mut dyn FnMut(Value)) -> Result<(), Fault> {
    let mut file = open(path)?;
    for number in 1_u64.. {
        let mut line = Vec::new();
        let n_read = file.by_ref().take(FILE_BYTES_MAX).read_until(b'\n', &mut line);
        if n_read.map_err(|error| with_path(path, &error))? == 0 {
            break;
        }
        if line.last() != Some(&b'\n') {
            return Err(format!("`{}`: line {number} is cut off or too long", path.display()).into());
        }
        let page = gateway_evidence::parse(&line);
        each(page.map_err(|error| Fault::from(format!("`{}`: line {number}: {error}", path.display())))?);
    }
    Ok(())
}

/// Whether the first line is a whole JSON document that ends with a line feed, and another line follows.
fn is_archive(path: &Path) -> Result<bool, Fault> {
    let mut file = open(path)?;
    let mut lines = [Vec::new(), Vec::new()];
    for line in &mut lines {
        let read = file.by_ref().take(FILE_BYTES_MAX).read_until(b'\n', line);
        read.map_err(|error| with_path(path, &error))?;
    }
    let [first, second] = lines;
    Ok(first.ends_with(b"\n") && !second.is_empty() && gateway_evidence::parse(&first).is_ok())
}

fn check_all(arguments: &Audit, now: EpochMs) -> Result<(Lines, Verdict), Fault> {
    let Audit { files, roots, nodes } = arguments;
    let roots = read_roots(roots)?;
    let logs = read_logs(nodes, &roots)?;
    let reader = EvidenceReader { nodes: Some(&logs), ..EvidenceReader::new(&roots, now) };
    let (mut lines, mut verdict, mut shown) = (Lines::new(), Verdict::Holds, BTreeSet::new());
    let mut check = |id: &str, pages: Vec<Value>| {
        let report = verify(pages, &reader);
        let of_logs = |check: &&Check| check.name != LOGS_CHECK;
        for Check { name, status } in report.checks.iter().filter(of_logs) {
            add_status(&mut lines, &format!("{id}: {name}"), status, false);
        }
        verdict = worse(verdict, report.verdict());
        shown.extend(id.parse::<OperationId>());
    };
    // A document's pages are read again when it is checked, so that only one document is in memory.
    let mut documents = BTreeMap::<String, Vec<&PathBuf>>::new();
    for file in files {
        if is_archive(file)? {
            for_each_document(file, &mut check)?;
        } else {
            documents.entry(id_of(&read_page(file)?).to_owned()).or_default().push(file);
        }
    }
    for (id, files) in documents {
        check(&id, files.into_iter().map(|file| read_page(file)).collect::<Result<_, _>>()?);
    }
    let report = audit(&logs, &shown);
    for Check { name, status } in &report.checks {
        add_status(&mut lines, name, status, true);
    }
    verdict = worse(verdict, report.verdict());
    let fails = "the evidence does not show what the nodes\u{2019} logs show, or is not valid";
    lines.add(summary(verdict, fails));
    Ok((lines, verdict))
}

/// The check that is the same for each document of an audit.
const LOGS_CHECK: &str = "node logs";

fn worse(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Verdict::Fails, _) | (_, Verdict::Fails) => Verdict::Fails,
        (Verdict::NotChecked, _) | (_, Verdict::NotChecked) => Verdict::NotChecked,
        (Verdict::Holds, Verdict::Holds) => Verdict::Holds,
    }
}

fn read_roots(path: &Path) -> Result<Roots, Fault> {
    Roots::parse(&read(path)?).map_err(|error| with_path(path, &error))
}

fn read_witnesses(path: &Path) -> Result<WitnessPolicy, Fault> {
    let text = String::from_utf8(read(path)?).map_err(|error| with_path(path, &error))?;
    text.parse().map_err(|error: WitnessPolicyError| with_path(path, &error))
}

fn read_page(path: &Path) -> Result<Value, Fault> {
    gateway_evidence::parse(&read(path)?).map_err(|error| with_path(path, &error))
}

/// Reads the logs line by line: they can be much larger than a document.
fn read_logs(paths: &[PathBuf], roots: &Roots) -> Result<NodeLogs, Fault> {
    let mut logs = Vec::new();
    for path in paths {
        logs.push(NodeLogFile::read(open(path)?).map_err(|error| with_path(path, &error))?);
    }
    Ok(NodeLogs::new(logs, roots)?)
}

fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    let length = std::fs::metadata(path).map_err(|error| with_path(path, &error))?.len();
    if length > FILE_BYTES_MAX {
        return Err(format!("`{}` is larger than {FILE_BYTES_MAX} bytes", path.display()).into());
    }
    std::fs::read(path).map_err(|error| with_path(path, &error))
}

fn add_report(lines: &mut Lines, report: &Report) {
    for Check { name, status } in &report.checks {
        add_status(lines, name, status, true);
    }
    lines.add(summary(report.verdict(), "the evidence is not valid"));
}

/// The last line of a report.
const fn summary(verdict: Verdict, fails: &str) -> &str {
    match verdict {
        Verdict::Holds => "every check that applies was made and holds",
        Verdict::Fails => fails,
        Verdict::NotChecked => "every check that was made holds; those marked -- could not be made",
    }
}

fn add_status(lines: &mut Lines, name: &str, status: &Status, shows_holds: bool) {
    match status {
        Status::Holds(seen) if shows_holds => add_line(lines, "ok  ", name, seen),
        Status::Holds(_) => {}
        Status::NotChecked(why) => add_line(lines, "--  ", name, &format!("not checked: {why}")),
        Status::Fails(findings) => {
            for finding in findings {
                add_line(lines, "FAIL", name, &finding.to_string());
            }
        }
    }
}

fn add_line(lines: &mut Lines, mark: &str, name: &str, finding: &str) {
    lines.add(format_args!("{mark}  {name}: {finding}"));
}

/// The bundles to evaluate with. Their signatures are not checked: the evidence has the bundle's hash, which covers every byte.
pub struct Bundles(Vec<Evaluator>);

impl Bundles {
    /// Loads them, each from its folder or archive.
    pub fn load(folders: &[PathBuf]) -> Result<Self, Fault> {
        let engine = PolicyEngine::new()?;
        Ok(Self(folders.iter().map(|folder| load_unverified(&engine, folder)).collect::<Result<_, _>>()?))
    }
}

impl RerunPolicy for Bundles {
    fn differences(&self, evaluation: &Evaluation) -> Result<Vec<String>, String> {
        let outcome = &evaluation.outcome;
        let Some(bundle) = self.0.iter().find(|bundle| outcome.bundle_hash == bundle.bundle_hash()) else {
            return Err(format!(
                "the bundle {} that decided was not given with --bundle",
                outcome.bundle_hash
            ));
        };
        if let Some(why) = replay::not_repeatable(outcome) {
            return Err(why);
        }
        let found = replay::differences(bundle, &evaluation.input, outcome).into_iter();
        Ok(found
            .map(|one| format!("{}: recorded `{}`, now `{}`", one.field, one.recorded, one.again))
            .collect())
    }
}
