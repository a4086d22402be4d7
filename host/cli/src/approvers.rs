//! `operation-gateway approvers …`: checks a registry of approvers, creates approvers' keys, and signs approvals.

use crate::{EXIT_FAILED, Fault, escape, report_errors, with_path};
use clap::{Args, Subcommand};
use ed25519_dalek::{Signer, SigningKey};
use gateway_domain::approval::{Approval, ApprovalSignature, ApprovalSubject, KeyEntry, Signature, Validity};
use gateway_domain::error_chain;
use gateway_domain::ids::{Hex32, KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{Intent, key_id};
use gateway_domain::time::EpochMs;
use gateway_seal::key_file;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, IsTerminal, Read, Write};
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
    /// Create an Ed25519 key with mode 0600 unless the file exists, and print its line for a registry
    Key {
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Sign an approval, and print it as the body for `POST …/approve`
    #[command(
        after_help = "Prints the operation to standard error, and signs when `yes` is typed at the terminal. The intent hash, \
                      the key's id and the statement are computed from the operation; if they differ from those it states, \
                      nothing is signed."
    )]
    Sign(Sign),
}

#[derive(Debug, Args)]
pub struct Sign {
    /// Ed25519 seed, hexadecimal, mode 0600
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
    /// Time of the approval, in milliseconds since 1970 [default: now]
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
        ApproversCommand::Key { file } => create_key(file),
        ApproversCommand::Sign(sign) => sign_approval(sign, now),
    };
    match done {
        Ok(text) => {
            let _reader_gone = std::io::stdout().lock().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => report_errors(&[error_chain(error.as_ref())], EXIT_FAILED),
    }
}

fn check(path: &Path, now: EpochMs) -> Result<String, Fault> {
    let approvers =
        gateway_service::approvers::load(path).map_err(|error| with_path(path, error.as_ref()))?;
    let mut text = String::new();
    for entry in &approvers.file().approvers {
        let (tenants, roles) = (entry.tenants.join(","), entry.roles.join(","));
        writeln!(text, "{}  tenants {tenants}  roles {roles}", entry.subject_id)?;
        for key in &entry.keys {
            writeln!(text, "  {}  {}", describe_key(key), describe_validity(key.validity(), now))?;
        }
    }
    writeln!(text, "{} approvers", approvers.file().approvers.len())?;
    Ok(text)
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
fn create_key(path: &Path) -> Result<String, Fault> {
    let signing = SigningKey::from_bytes(&*key_file::load_or_create(path)?);
    let public_key = Hex32::new(signing.verifying_key().to_bytes());
    Ok(json!({ "kind": "ed25519", "public_key": public_key }).to_string() + "\n")
}

/// The members of an operation view that an approval depends on.
#[derive(Deserialize)]
struct View {
    operation_id: OperationId,
    intent: Value,
    approval_statement: Statement,
}

#[derive(Deserialize)]
struct Statement {
    tenant: Tenant,
    operation_id: OperationId,
    key_id: KeyId,
    intent_hash: Hex32,
    submitter: String,
}

/// Shows the operation on standard error, asks for confirmation, and returns the signed body of the approval.
fn sign_approval(sign: &Sign, now: EpochMs) -> Result<String, Fault> {
    let signing = SigningKey::from_bytes(&*key_file::load(&sign.key)?);
    let view = read_view(&sign.operation).map_err(|error| with_path(&sign.operation, error.as_ref()))?;
    let (intent, key_ref, subject) = view.approval_subject()?;
    let claimed = sign.approved_at_ms.map_or_else(|| i64::try_from(now.0), Ok)?;
    let mut approval = Approval {
        subject_id: sign.subject.clone(),
        roles: sign.roles.clone(),
        claimed_at_ms: claimed,
        approved_at_ms: now,
        signature: None,
    };
    let public_key = Hex32::new(signing.verifying_key().to_bytes());
    let shown = format!(
        "`{}` approves operation {} of tenant `{}`, submitted by `{}`, on the key `{key_ref}`, {}:\n{}\nin the roles `{}`, at {claimed} ms, with the key ed25519 {public_key}; \
         the intent's hash is {}\n",
        approval.subject_id,
        subject.operation_id,
        subject.tenant,
        subject.submitter,
        subject.key_id,
        serde_json::to_string_pretty(&intent)?,
        approval.roles.join("`, `"),
        subject.intent_hash,
    );
    std::io::stderr().lock().write_all(escape(&shown).as_bytes())?;
    if !sign.yes {
        confirm()?;
    }
    let message = subject.statement(&approval).message()?;
    let signature = Signature::new(signing.sign(&message).to_bytes());
    approval.signature = Some(Box::new(ApprovalSignature::Ed25519 { public_key, signature }));
    let Approval { subject_id, roles, signature, .. } = &approval;
    let body = json!({
        "subject_id": subject_id, "roles": roles, "approved_at_ms": claimed, "signature": signature,
    });
    Ok(body.to_string() + "\n")
}

/// Asks at the terminal whether to sign.
fn confirm() -> Result<(), Fault> {
    let (stdin, stderr) = (std::io::stdin(), std::io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return Err(
            "nothing was signed, because there is no terminal to ask for confirmation; `--yes` signs without asking"
                .into(),
        );
    }
    stderr.lock().write_all(b"Sign this approval? Type `yes` to sign: ")?;
    let mut answer = String::new();
    stdin.lock().take(ANSWER_BYTES_MAX).read_line(&mut answer)?;
    if answer.trim() == "yes" { Ok(()) } else { Err("not confirmed: nothing was signed".into()) }
}

fn read_view(path: &Path) -> Result<View, Fault> {
    let unreadable = |error: std::io::Error| Fault::from(format!("cannot be opened: {}", error.kind()));
    let file = File::open(path).map_err(unreadable)?;
    let mut text = Vec::new();
    file.take(VIEW_BYTES_MAX).read_to_end(&mut text).map_err(unreadable)?;
    let mut value = gateway_evidence::parse(&text)?;
    // The response to a submission has the operation in a member.
    if let Some(operation) = value.get_mut("operation").filter(|operation| operation.is_object()) {
        value = operation.take();
    }
    if value.get("approval_statement").is_none() {
        return Err("is not an operation that awaits approvals".into());
    }
    Ok(serde_json::from_value(value)?)
}

impl View {
    /// The intent, the name of its key, and the subject of an approval. Checks that the statement agrees with the intent and
    /// the key.
    fn approval_subject(&self) -> Result<(Intent, KeyRef, ApprovalSubject<'_>), Fault> {
        let Statement { tenant, operation_id, key_id: stated_key_id, intent_hash, submitter } =
            &self.approval_statement;
        if *operation_id != self.operation_id {
            return Err("`approval_statement` is for another operation".into());
        }
        let key_ref: KeyRef =
            serde_json::from_value(self.intent.get("key_ref").cloned().unwrap_or_default())?;
        if key_id(tenant, &key_ref)? != *stated_key_id {
            return Err(
                format!("the stated key id is not that of key `{key_ref}` of tenant `{tenant}`").into()
            );
        }
        let intent = self.intent_of(*intent_hash)?.ok_or("the intent does not have the stated hash")?;
        let subject = ApprovalSubject {
            tenant,
            operation_id: *operation_id,
            key_id: *stated_key_id,
            intent_hash: *intent_hash,
            submitter,
        };
        Ok((intent, key_ref, subject))
    }

    /// The view's intent, if it has this hash. The view names the key even if the payment did not, so both forms are tried.
    fn intent_of(&self, intent_hash: Hex32) -> Result<Option<Intent>, Fault> {
        let mut without_key = self.intent.clone();
        if let Some(members) = without_key.as_object_mut() {
            members.remove("key_ref");
        }
        for candidate in [&self.intent, &without_key] {
            let intent: Intent = serde_json::from_value(candidate.clone())?;
            if intent.hash()? == intent_hash {
                return Ok(Some(intent));
            }
        }
        Ok(None)
    }
}
