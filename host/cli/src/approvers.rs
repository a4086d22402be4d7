//! `operation-gateway approvers …`: checks or converts a registry of approvers, creates approvers' keys, and signs approvals, rejections and aborts.

use crate::{finish, with_path};
use clap::{Args, Subcommand};
use ed25519_dalek::{Signer, SigningKey};
use gateway_domain::approval::{
    Approvable, ApprovalSignature, Approvers, ApproversFile, AwaitingView, KeyEntry, Signature, Validity,
    Word,
};
use gateway_domain::ids::Hex32;
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_seal::key_file;
use gateway_service::output::{self, EXIT_FAILED, Lines};
use gateway_service::process::Fault;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Longest answer that is read at the terminal, in bytes.
const ANSWER_BYTES_MAX: u64 = 64;

/// Largest operation view that is read, in bytes.
const VIEW_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, Subcommand)]
pub enum ApproversCommand {
    /// Check a registry of approvers and print what it contains
    Check {
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print a registry of the format before, svc/approvers/v1, in the present one
    Convert {
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Create an Ed25519 key with mode 0600 unless the file exists, and print its line for a registry
    Key {
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Sign an approval, a rejection or an abort, and print it as the body for `POST …/approve`, `…/reject` or `…/abort`
    #[command(
        after_help = "Prints the operation to standard error, and signs when `yes` is typed at the terminal. The intent hash, \
                      the key's id and the statement are computed from the operation; if they differ from those it states, \
                      nothing is signed."
    )]
    Sign(Sign),
}

#[derive(Debug, Args)]
pub struct Sign {
    /// Secret file with an Ed25519 seed, hexadecimal
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The operation, as returned by `GET` or by a submission
    #[arg(long, value_name = "FILE")]
    operation: PathBuf,
    /// The approver's name
    #[arg(long, value_name = "NAME")]
    subject: String,
    /// The approver's role; may be repeated
    #[arg(long = "role", value_name = "ROLE", required = true)]
    roles: Vec<String>,
    /// Reject the operation for this reason, instead of approving it
    #[arg(long, value_name = "REASON")]
    reject: Option<String>,
    /// Abort the change of a key for this reason, instead of approving it
    #[arg(long, value_name = "REASON", conflicts_with = "reject")]
    abort: Option<String>,
    /// With `--abort`, the receivers of new shares that are lost
    #[arg(long, value_name = "N,...", value_delimiter = ',', requires = "abort")]
    lost: Vec<u16>,
    /// Time of the approval, rejection or abort, in milliseconds since 1970 [default: now]
    #[arg(long, value_name = "EPOCH MILLISECONDS")]
    approved_at_ms: Option<i64>,
    /// Sign without asking; required without a terminal
    #[arg(long)]
    yes: bool,
}

/// Runs one command.
#[must_use]
pub fn run(command: &ApproversCommand, now: EpochMs) -> ExitCode {
    let done = match command {
        ApproversCommand::Check { file } => check(file, now),
        ApproversCommand::Convert { file } => convert(file),
        ApproversCommand::Key { file } => create_key(file),
        ApproversCommand::Sign(sign) => sign_statement(sign, now),
    };
    finish(done.map(|lines| (lines, ExitCode::SUCCESS)), EXIT_FAILED)
}

fn check(path: &Path, now: EpochMs) -> Result<Lines, Fault> {
    let approvers =
        gateway_service::approvers::load(path).map_err(|error| with_path(path, error.as_ref()))?;
    let mut lines = Lines::new();
    for entry in &approvers.file().approvers {
        let (tenants, roles) = (entry.tenants.join(","), entry.roles.join(","));
        lines.add(format_args!("{}  tenants {tenants}  roles {roles}", entry.subject_id));
        if let Some(person) = &entry.person {
            lines.add(format_args!("  person {person}"));
        }
        for (name, value) in &entry.attributes {
            lines.add(format_args!("  {name} {value}"));
        }
        for key in &entry.keys {
            let validity = describe_validity(key.validity(), now);
            lines.add(format_args!("  {}  {validity}", describe_key(key)));
        }
    }
    for (person, subjects) in approvers.doubles() {
        let subjects = subjects.into_iter().map(|subject| format!("`{subject}`")).collect::<Vec<_>>();
        let n_subjects = subjects.len();
        lines.add(format_args!(
            "person `{}` has {n_subjects} subjects, which count once: {}",
            person.as_str(),
            subjects.join(", "),
        ));
    }
    lines.add(format_args!("{} subjects", approvers.file().approvers.len()));
    Ok(lines)
}

/// Prints the registry in the present format, if it is valid.
fn convert(path: &Path) -> Result<Lines, Fault> {
    let converted = gateway_service::approvers::read(path).and_then(|text| {
        let file = ApproversFile::convert(&text)?;
        Approvers::new(file.clone())?;
        Ok(file)
    });
    let mut lines = Lines::new();
    lines.add_json_pretty(&converted.map_err(|error| with_path(path, error.as_ref()))?)?;
    Ok(lines)
}

fn describe_key(key: &KeyEntry) -> String {
    match key {
        KeyEntry::Ed25519 { public_key, .. } => format!("ed25519 {public_key}"),
        KeyEntry::Webauthn { credential_id, rp_id, origins, .. } => {
            format!("webauthn {credential_id} of {rp_id} at {}", origins.join(","))
        }
    }
}

fn describe_validity(validity: Validity, now: EpochMs) -> &'static str {
    validity.check(now).map_or_else(|fault| fault.as_str(), |()| "valid")
}

/// Creates the key unless the file exists; returns its entry for a registry.
fn create_key(path: &Path) -> Result<Lines, Fault> {
    let signing = SigningKey::from_bytes(&*key_file::load_or_create(path)?);
    let public_key = Hex32::new(signing.verifying_key().to_bytes());
    let mut lines = Lines::new();
    lines.add_json(&json!({ "kind": "ed25519", "public_key": public_key }))?;
    Ok(lines)
}

/// The body of a request that approves, rejects or aborts.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(flatten)]
    word: Word<'a>,
    subject_id: &'a str,
    roles: &'a [String],
    signature: ApprovalSignature,
}

/// Shows the operation on standard error, asks for confirmation, and returns the signed body of the request.
fn sign_statement(sign: &Sign, now: EpochMs) -> Result<Lines, Fault> {
    let view = read_view(&sign.operation).map_err(|error| with_path(&sign.operation, error.as_ref()))?;
    let signed = Signed {
        key: &sign.key,
        subject: &sign.subject,
        roles: &sign.roles,
        ends: Ends::of(sign.reject.as_deref(), sign.abort.as_deref(), &sign.lost),
        yes: sign.yes,
    };
    let at_ms = sign.approved_at_ms.map_or_else(|| i64::try_from(now.0), Ok)?;
    let mut lines = Lines::new();
    lines.add_json(&sign_checked(&view, &signed, at_ms)?)?;
    Ok(lines)
}

/// What is signed, by whom.
pub(crate) struct Signed<'a> {
    pub(crate) key: &'a Path,
    pub(crate) subject: &'a str,
    pub(crate) roles: &'a [String],
    /// `None` for an approval.
    pub(crate) ends: Option<Ends<'a>>,
    pub(crate) yes: bool,
}

/// A rejection or an abort.
pub(crate) struct Ends<'a> {
    reason: &'a str,
    /// The lost receivers, for an abort.
    lost: Option<BTreeSet<ParticipantIndex>>,
}

impl<'a> Ends<'a> {
    pub(crate) fn of(reject: Option<&'a str>, abort: Option<&'a str>, lost: &[u16]) -> Option<Self> {
        let lost = || lost.iter().copied().map(ParticipantIndex).collect();
        abort
            .map(|reason| Self { reason, lost: Some(lost()) })
            .or_else(|| reject.map(|reason| Self { reason, lost: None }))
    }

    fn word(&self, at_ms: i64) -> Word<'_> {
        let reason = self.reason;
        match &self.lost {
            None => Word::Rejects { reason, rejected_at_ms: at_ms },
            Some(lost_participants) => Word::Aborts { aborted_at_ms: at_ms, lost_participants, reason },
        }
    }

    /// The last segment of the path that takes the request.
    pub(crate) const fn action(&self) -> &'static str {
        if self.lost.is_some() { "abort" } else { "reject" }
    }

    pub(crate) const fn aborts(&self) -> bool {
        self.lost.is_some()
    }
}

/// What an approver says at this time.
pub(crate) fn word<'a>(ends: Option<&'a Ends<'_>>, at_ms: i64) -> Word<'a> {
    ends.map_or(Word::Approves { approved_at_ms: at_ms }, |ends| ends.word(at_ms))
}

/// As `approvers sign`, for a view that was just asked for.
pub(crate) fn sign_view(view: Value, signed: &Signed<'_>, now: EpochMs) -> Result<Value, Fault> {
    sign_checked(&AwaitingView::read(view)?, signed, i64::try_from(now.0)?)
}

fn sign_checked(view: &AwaitingView, sign: &Signed<'_>, at_ms: i64) -> Result<Value, Fault> {
    let signing = SigningKey::from_bytes(&*key_file::load(sign.key)?);
    let Approvable { intent, key_ref, subject } = view.check()?;
    let word = word(sign.ends.as_ref(), at_ms);
    let statement = subject.says(sign.subject, sign.roles, word);
    let public_key = Hex32::new(signing.verifying_key().to_bytes());
    let (verb, what, why) = match word {
        Word::Approves { .. } => ("approves", "approval", String::new()),
        Word::Rejects { reason, .. } => ("rejects", "rejection", format!("for the reason `{reason}`, ")),
        Word::Aborts { reason, lost_participants, .. } => {
            let lost = lost_participants.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let without = if lost.is_empty() { lost } else { format!("without the nodes {lost}, ") };
            ("aborts", "abort", format!("{without}for the reason `{reason}`, "))
        }
    };
    let mut shown = Lines::new();
    shown.add(format_args!(
        "`{}` {verb} operation {} of tenant `{}`, submitted by `{}`, on the key `{key_ref}`, {}:",
        sign.subject, subject.operation_id, subject.tenant, subject.submitter, subject.key_id,
    ));
    shown.add_json_pretty(&intent)?;
    shown.add(format_args!(
        "{why}in the roles `{}`, at {at_ms} ms, with the key ed25519 {public_key}; the intent's hash is {}",
        sign.roles.join("`, `"),
        subject.intent_hash,
    ));
    output::tell(&shown)?;
    if !sign.yes {
        confirm(what)?;
    }
    let signature = Signature::new(signing.sign(&statement.message()?).to_bytes());
    let signature = ApprovalSignature::Ed25519 { public_key, signature };
    let body = Body { word, subject_id: sign.subject, roles: sign.roles, signature };
    Ok(serde_json::to_value(&body)?)
}

/// Asks at the terminal whether to sign.
fn confirm(what: &str) -> Result<(), Fault> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() || !output::tells_terminal() {
        return Err(
            "nothing was signed, because there is no terminal to ask for confirmation; `--yes` signs without asking"
                .into(),
        );
    }
    output::ask(&format!("Sign this {what}? Type `yes` to sign: "))?;
    let mut answer = String::new();
    stdin.lock().take(ANSWER_BYTES_MAX).read_line(&mut answer)?;
    if answer.trim() == "yes" { Ok(()) } else { Err("not confirmed: nothing was signed".into()) }
}

fn read_view(path: &Path) -> Result<AwaitingView, Fault> {
    let unreadable = |error: std::io::Error| Fault::from(format!("cannot be opened: {}", error.kind()));
    let file = File::open(path).map_err(unreadable)?;
    let mut text = Vec::new();
    file.take(VIEW_BYTES_MAX).read_to_end(&mut text).map_err(unreadable)?;
    Ok(AwaitingView::read(gateway_evidence::parse(&text)?)?)
}
