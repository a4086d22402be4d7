//! Checks the key: the log's key signed its state for this document, it is the operation's key, and new shares belong
//! to it.

use super::operation::Replayed;
use super::pages::{Document, hash};
use super::report::{Findings, Report};
use crate::document::{KEY_STATE, KeyStatement};
use crate::roots::Roots;
use crate::signature::signing_key;
use gateway_domain::admission::Target;
use gateway_domain::canonical;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::Intent;
use gateway_domain::key::{epoch_root, payments_public_key};
use gateway_domain::log::{SignedStatement, StatementError};
use gateway_domain::operation::{Change, Operation, Phase, Staged};
use gateway_domain::time::EpochMs;
use serde_json::{Map, Value};

const NAME: &str = "key";

/// Checks the key of each page. `log_sizes` are the sizes in the verified checkpoints of the pages; `last_at_ms` is
/// the time of the last event in epoch milliseconds.
pub(crate) fn check(
    document: &Document,
    replayed: &Replayed,
    log_sizes: &[Option<u64>],
    last_at_ms: u64,
    roots: &Roots,
    report: &mut Report,
) {
    let (mut findings, mut seen) = (Findings::default(), String::new());
    for (page, log_size) in document.pages.iter().zip(log_sizes) {
        let key = page.get("key").unwrap_or(&Value::Null);
        let stated_at_ms = page.get("key_stated_at_ms").and_then(Value::as_u64).unwrap_or(0);
        let statement = KeyStatement {
            operation_id: replayed.operation.id,
            record_root: hash(&document.members, "record_root").unwrap_or(Hex32::ZERO),
            log_size: log_size.unwrap_or(0),
            stated_at_ms: EpochMs(stated_at_ms),
            key,
        };
        check_statement(page, &statement, roots, &mut findings);
        if stated_at_ms < last_at_ms {
            let what = format!("is before the operation's last event at {last_at_ms}");
            findings.add("/key_stated_at_ms", what);
        }
        let state = key.get("state").and_then(Value::as_str);
        if state.is_some() {
            check_key(key, replayed, roots, &mut findings);
        } else if replayed.operation.result_ref.is_some() {
            findings.add("/key", "the operation has a result, but its key has no state");
        }
        let (state, size) =
            (state.map_or("no key exists".to_owned(), |state| format!("`{state}`")), statement.log_size);
        seen =
            format!("{state} at {stated_at_ms}, with a checkpoint of {size} events, signed by the log's key");
    }
    check_new_shares(replayed, &mut findings);
    report.add(NAME, findings, seen);
}

/// Checks that the log's key signed exactly this statement. A note from other evidence differs in operation, last
/// event, log size or time.
fn check_statement(
    page: &Map<String, Value>,
    expected: &KeyStatement<'_>,
    roots: &Roots,
    findings: &mut Findings,
) {
    let note = page.get("key_note").and_then(Value::as_str).unwrap_or_default();
    let statement: SignedStatement = match note.parse() {
        Ok(statement) => statement,
        Err(error) => {
            findings.add("/key_note", format!("{error}"));
            return;
        }
    };
    if statement.to_string() != note {
        findings.add("/key_note", "is not in the canonical form of a note");
    }
    match statement.verify(&roots.logs, KEY_STATE, expected) {
        Ok(()) => {}
        Err(StatementError::OtherStatement) => {
            let differing = differing_members(expected, &statement.unverified().unwrap_or_default());
            for name in &differing {
                let at = match name.as_str() {
                    "key" => "/key",
                    "stated_at_ms" => "/key_stated_at_ms",
                    _ => "/key_note",
                };
                findings
                    .add(at, format!("differs from the statement in `key_note`: it has another `{name}`"));
            }
            if differing.is_empty() {
                findings.add("/key_note", "is not a statement about a key by a log in the roots");
            }
        }
        Err(error @ (StatementError::Note(_) | StatementError::NotCanonical(_))) => {
            findings.add("/key_note", error.to_string());
        }
    }
}

/// The names of the members in which the statement differs from the expected one.
fn differing_members(expected: &KeyStatement<'_>, stated: &Value) -> Vec<String> {
    let canonical = canonical::to_bytes(expected).unwrap_or_default();
    let expected: Map<String, Value> = serde_json::from_slice(&canonical).unwrap_or_default();
    let differs = |(name, value): &(String, Value)| stated.get(name) != Some(value);
    expected.into_iter().filter(differs).map(|(name, _)| name).collect()
}

/// Checks that the key is the operation's, and that its public key is the one of the roots, the signature and the new
/// shares.
fn check_key(key: &Value, replayed: &Replayed, roots: &Roots, findings: &mut Findings) {
    let text = |name: &str| key.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let operation = &replayed.operation;
    findings.same("/key/key_id", "the operation's key", &text("key_id"), &operation.key.key_id.to_string());
    findings.same("/key/key_ref", "the operation's key", &text("key_ref"), &operation.key.key_ref.0);
    let public = text("public_key_artifact_ref");
    if let Some(pinned) = roots.keys.get(&operation.key.key_id) {
        findings.same("/key/public_key_artifact_ref", "the key in the roots", &public, pinned);
    }
    if let Some(named) = operation.intent.public_key_artifact_ref() {
        findings.same("/key/public_key_artifact_ref", "the key that the intent names", &public, named);
    }
    let payments = payments_public_key(operation.key.key_id, &public).unwrap_or_default();
    let at = "/key/payments_public_key_hex";
    findings.same(at, "the key for payments", &text("payments_public_key_hex"), &payments);
    let published = operation.signature.as_ref().filter(|_| operation.phase == Phase::Published);
    if let Some(signature) = published {
        let signed_under = format!("{}:{}", signature.signature_profile, signature.public_key_hex);
        let expected = signing_key(&operation.intent, operation.key.key_id, &public);
        if expected.is_some_and(|expected| signed_under != expected) {
            findings.add(
                "/key/public_key_artifact_ref",
                format!("differs from the key of the signature, `{signed_under}`"),
            );
        }
    }
    if let Some(made) = published_key(operation).filter(|made| !public.ends_with(&format!(":{made}"))) {
        findings.add(
            "/key/public_key_artifact_ref",
            format!("differs from the key of the published shares, `{made}`"),
        );
    }
}

/// Checks that the new shares are those that were admitted, and that the result is their digest.
fn check_new_shares(replayed: &Replayed, findings: &mut Findings) {
    let Some(staged) = &replayed.operation.staged else { return };
    for (index, event) in replayed.events.iter().enumerate() {
        let at = format!("/events/{index}/event/change");
        match &event.change {
            Change::EpochDecided { .. } if !is_admitted(staged, &replayed.operation) => {
                findings.add(format!("{at}/staged"), "are not the shares that were admitted");
            }
            Change::Executed { result_ref, signature: None, .. } => {
                let at = format!("{at}/result_ref");
                match staged.result_ref() {
                    Ok(digest) => findings.same(&at, "the digest of the new shares", result_ref, &digest),
                    Err(error) => findings.add(at, error.to_string()),
                }
            }
            _ => {}
        }
    }
}

/// The public key that was published with new shares of the operation's own key. `None` for a rotation, which creates
/// another key.
fn published_key(operation: &Operation) -> Option<&str> {
    let staged = operation.staged.as_ref().filter(|_| operation.phase == Phase::Published)?;
    let is_another = target(operation).is_some_and(|target| target.key_id != operation.key.key_id);
    (!is_another).then_some(staged.public.public_key_hex.as_str())
}

/// Whether the staged shares are those of the decision. Earlier releases named no target for a key creation.
fn is_admitted(staged: &Staged, operation: &Operation) -> bool {
    let Some(target) = target(operation) else { return matches!(operation.intent, Intent::KeyCreate(_)) };
    let Staged { epoch, public, participants, threshold } = staged;
    let root = epoch_root(target.key_id, &target.epoch, &public.package_hex);
    (&epoch.name, participants, threshold) == (&target.epoch, &target.participants, &target.threshold)
        && root.is_ok_and(|root| root == epoch.root)
}

fn target(operation: &Operation) -> Option<&Target> {
    operation.admission.as_ref()?.decision.target.as_ref()
}
