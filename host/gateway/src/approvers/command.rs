//! `approvers check`, `approvers key` and `approvers sign`.

use super::{Fault, load};
use crate::cli::approvers::{Approvers, Sign};
use crate::clock::SystemClock;
use ed25519_dalek::{Signer, SigningKey};
use gateway_domain::approval::{Approval, ApprovalSignature, ApprovalSubject, Hex64, KeyEntry, Validity};
use gateway_domain::chain;
use gateway_domain::ids::{Hex32, KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{Intent, key_id};
use gateway_domain::time::EpochMs;
use gateway_engine::ports::TellTime;
use gateway_seal::key_file;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;

/// Something is wrong with what was given.
const EXIT_WRONG: u8 = 1;

/// Longest line that is read as an answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 64;

/// Largest view that is read, in bytes.
const VIEW_BYTES_MAX: u64 = 1024 * 1024;

/// Carries a command out.
pub(crate) fn main(command: &Approvers) -> ExitCode {
    let now = SystemClock.now();
    let done = match command {
        Approvers::Check { file } => check(file, now),
        Approvers::Key { file } => key(file),
        Approvers::Sign(sign) => signed(sign, now),
    };
    match done {
        Ok(text) => {
            let _nobody_reads = std::io::stdout().lock().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => crate::complain(&[chain(error.as_ref())], EXIT_WRONG),
    }
}

fn check(path: &Path, now: EpochMs) -> Result<String, Fault> {
    let approvers = load(path).map_err(|error| named(path, error))?;
    let mut text = String::new();
    for entry in &approvers.file().approvers {
        let (tenants, roles) = (entry.tenants.join(","), entry.roles.join(","));
        writeln!(text, "{}  tenants {tenants}  roles {roles}", entry.subject_id)?;
        for key in &entry.keys {
            writeln!(text, "  {}  {}", shown(key), state(key.validity(), now))?;
        }
    }
    writeln!(text, "{} approvers", approvers.file().approvers.len())?;
    Ok(text)
}

fn shown(key: &KeyEntry) -> String {
    match key {
        KeyEntry::Ed25519 { public_key, .. } => format!("ed25519 {public_key}"),
        KeyEntry::Webauthn { credential_id, rp_id, origins, .. } => {
            format!("webauthn {credential_id} of {rp_id} at {}", origins.join(","))
        }
    }
}

fn state(validity: Validity, now: EpochMs) -> &'static str {
    validity.check(now).map_or_else(|fault| fault.as_str(), |()| "valid")
}

fn key(path: &Path) -> Result<String, Fault> {
    let signing = SigningKey::from_bytes(&*key_file::load_or_create(path)?);
    let public_key = Hex32::new(signing.verifying_key().to_bytes());
    Ok(json!({ "kind": "ed25519", "public_key": public_key }).to_string() + "\n")
}

/// What a view says of its operation. Everything that can be made from the rest is, and compared.
#[derive(Deserialize)]
struct View {
    operation_id: OperationId,
    intent: Value,
    approval_statement: Stated,
}

#[derive(Deserialize)]
struct Stated {
    tenant: Tenant,
    operation_id: OperationId,
    key_id: KeyId,
    intent_hash: Hex32,
}

/// The body of an approval, signed once its approver has seen what it approves, on standard error, and confirmed it.
fn signed(sign: &Sign, now: EpochMs) -> Result<String, Fault> {
    let signing = SigningKey::from_bytes(&*key_file::load(&sign.key)?);
    let view = view(&sign.operation).map_err(|error| named(&sign.operation, error))?;
    let (intent, key_ref, subject) = view.approval_subject()?;
    let claimed = sign.approved_at_ms.map_or_else(|| i64::try_from(now.0), Ok)?;
    let mut approval = Approval {
        subject_id: sign.subject_id.clone(),
        roles: sign.roles.clone(),
        claimed_at_ms: claimed,
        approved_at_ms: now,
        signature: None,
    };
    let public_key = Hex32::new(signing.verifying_key().to_bytes());
    let shown = format!(
        "`{}` approves operation {} of tenant `{}` on the key `{key_ref}`, {}:\n{}\nin the roles `{}`, at {claimed} ms, with the key ed25519 {public_key}; \
         the intent's hash is {}\n",
        approval.subject_id,
        subject.operation_id,
        subject.tenant,
        subject.key_id,
        serde_json::to_string_pretty(&intent)?,
        approval.roles.join("`, `"),
        subject.intent_hash,
    );
    std::io::stderr().lock().write_all(plain(&shown).as_bytes())?;
    if !sign.confirmed {
        confirm()?;
    }
    let message = subject.statement(&approval).message()?;
    let signature = Hex64(signing.sign(&message).to_bytes());
    approval.signature = Some(Box::new(ApprovalSignature::Ed25519 { public_key, signature }));
    let Approval { subject_id, roles, signature, .. } = &approval;
    let body = json!({
        "subject_id": subject_id, "roles": roles, "approved_at_ms": claimed, "signature": signature,
    });
    Ok(body.to_string() + "\n")
}

/// Asks the person at the terminal whether to sign what is shown there.
fn confirm() -> Result<(), Fault> {
    let (stdin, stderr) = (std::io::stdin(), std::io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return Err(
            "there is no terminal to confirm this at: nothing was signed; `--yes` signs without asking"
                .into(),
        );
    }
    stderr.lock().write_all(b"Sign this approval? Type `yes` to sign: ")?;
    let mut answer = String::new();
    stdin.lock().take(ANSWER_BYTES_MAX).read_line(&mut answer)?;
    if answer.trim() == "yes" { Ok(()) } else { Err("not confirmed: nothing was signed".into()) }
}

/// The text with every character escaped that a terminal does not show as itself: whoever submits writes texts into it, and a
/// character that moves the cursor, is invisible, or turns the direction of reading around, could show another amount than is
/// signed.
pub(crate) fn plain(text: &str) -> String {
    let is_plain = |sign: char| sign == '\n' || gateway_api::wire::names::is_visible(sign);
    let shown =
        |sign: char| if is_plain(sign) { sign.to_string() } else { sign.escape_unicode().to_string() };
    text.chars().map(shown).collect()
}

fn view(path: &Path) -> Result<View, Fault> {
    let opened = |error: std::io::Error| Fault::from(format!("can not be opened: {}", error.kind()));
    let file = File::open(path).map_err(opened)?;
    let mut text = Vec::new();
    file.take(VIEW_BYTES_MAX).read_to_end(&mut text).map_err(opened)?;
    let mut value = gateway_evidence::parse(&text)?;
    // A submission answers with the operation in a member.
    if let Some(operation) = value.get_mut("operation").filter(|operation| operation.is_object()) {
        value = operation.take();
    }
    if value.get("approval_statement").is_none() {
        return Err("is no operation that awaits approvals".into());
    }
    Ok(serde_json::from_value(value)?)
}

impl View {
    /// The intent that the view shows, its key's name, and what an approval of it is about.
    fn approval_subject(&self) -> Result<(Intent, KeyRef, ApprovalSubject<'_>), Fault> {
        let Stated { tenant, operation_id, key_id: named, intent_hash } = &self.approval_statement;
        if *operation_id != self.operation_id {
            return Err("the statement is of another operation than the view".into());
        }
        let key_ref: KeyRef =
            serde_json::from_value(self.intent.get("key_ref").cloned().unwrap_or_default())?;
        if key_id(tenant, &key_ref)? != *named {
            return Err(format!("the key is not `{key_ref}` of tenant `{tenant}`").into());
        }
        let intent = self
            .intent_of(*intent_hash)?
            .ok_or("the intent that is shown is not the one that is approved")?;
        let subject = ApprovalSubject {
            tenant,
            operation_id: *operation_id,
            key_id: *named,
            intent_hash: *intent_hash,
        };
        Ok((intent, key_ref, subject))
    }

    /// A view names the key also of a payment that named none.
    fn intent_of(&self, intent_hash: Hex32) -> Result<Option<Intent>, Fault> {
        let mut keyless = self.intent.clone();
        if let Some(members) = keyless.as_object_mut() {
            members.remove("key_ref");
        }
        for shown in [&self.intent, &keyless] {
            let intent: Intent = serde_json::from_value(shown.clone())?;
            if intent.hash()? == intent_hash {
                return Ok(Some(intent));
            }
        }
        Ok(None)
    }
}

fn named(path: &Path, error: Fault) -> Fault {
    format!("`{}`: {}", path.display(), chain(error.as_ref())).into()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn what_is_shown_moves_nothing_on_a_terminal() {
        assert_eq!(
            plain("12 €\n\u{9b}2K\u{202e}21\u{feff}\t\r\u{61c}\u{3164}\u{a0}\u{e0041}\u{fe0f}"),
            "12 €\n\\u{9b}2K\\u{202e}21\\u{feff}\\u{9}\\u{d}\\u{61c}\\u{3164}\\u{a0}\\u{e0041}\\u{fe0f}"
        );
    }
}
