//! The key: the log's key signed its state for this very document, and it is the key of the operation. What the operation made of it is in `shares`.

use super::pages::{Read, hash};
use super::report::{Findings, Report};
use super::shares;
use super::story::Story;
use crate::document::{KEY_STATE, KeyStatement};
use crate::roots::Roots;
use gateway_domain::canonical;
use gateway_domain::ids::Hex32;
use gateway_domain::log::{SignedStatement, StatementError};
use gateway_domain::operation::Phase;
use gateway_domain::time::EpochMs;
use serde_json::{Map, Value};

const NAME: &str = "key";

/// `log_sizes` are those in the verified checkpoints of the pages, `last_at_ms` is the time of the last event in epoch
/// milliseconds.
pub(crate) fn check(
    read: &Read,
    story: &Story,
    log_sizes: &[Option<u64>],
    last_at_ms: u64,
    roots: &Roots,
    report: &mut Report,
) {
    let (mut findings, mut seen) = (Findings::default(), String::new());
    for (page, log_size) in read.pages.iter().zip(log_sizes) {
        let key = page.get("key").unwrap_or(&Value::Null);
        let stated_at_ms = page.get("key_stated_at_ms").and_then(Value::as_u64).unwrap_or(0);
        let statement = KeyStatement {
            operation_id: story.operation.id,
            record_root: hash(&read.members, "record_root").unwrap_or(Hex32::ZERO),
            log_size: log_size.unwrap_or(0),
            stated_at_ms: EpochMs(stated_at_ms),
            key,
        };
        stated(page, &statement, roots, &mut findings);
        if stated_at_ms < last_at_ms {
            let what = format!("is before the operation's last event, which is of {last_at_ms}");
            findings.add("/key_stated_at_ms", what);
        }
        let state = key.get("state").and_then(Value::as_str);
        if state.is_some() {
            named(key, story, roots, &mut findings);
        } else if story.operation.result_ref.is_some() {
            findings.add("/key", "the operation has a result, and its key has no state");
        }
        let (state, size) =
            (state.map_or("there is none".to_owned(), |state| format!("`{state}`")), statement.log_size);
        seen =
            format!("{state} when the log had {size} events, at {stated_at_ms}, as stated by the log's key");
    }
    shares::check(story, &mut findings);
    report.add(NAME, findings, seen);
}

/// The log's key signed exactly this statement. A note from other evidence has another operation, last event, log size or time.
fn stated(page: &Map<String, Value>, expected: &KeyStatement<'_>, roots: &Roots, findings: &mut Findings) {
    let note = page.get("key_note").and_then(Value::as_str).unwrap_or_default();
    let statement: SignedStatement = match note.parse() {
        Ok(statement) => statement,
        Err(error) => {
            findings.add("/key_note", format!("{error}"));
            return;
        }
    };
    if statement.to_string() != note {
        findings.add("/key_note", "is spelt otherwise than a note is written");
    }
    match statement.verify(&roots.logs, KEY_STATE, expected) {
        Ok(()) => {}
        Err(StatementError::OtherStatement) => {
            let differing = differing(expected, &statement.unverified().unwrap_or_default());
            for name in &differing {
                let at = match name.as_str() {
                    "key" => "/key",
                    "stated_at_ms" => "/key_stated_at_ms",
                    _ => "/key_note",
                };
                findings.add(at, format!("is not what `key_note` states: that is of another `{name}`"));
            }
            if differing.is_empty() {
                findings.add("/key_note", "is no statement on a key by a log that the roots know");
            }
        }
        Err(error @ (StatementError::Note(_) | StatementError::NotCanonical(_))) => {
            findings.add("/key_note", error.to_string());
        }
    }
}

/// The names of the members in which the stated value differs.
fn differing(expected: &KeyStatement<'_>, stated: &Value) -> Vec<String> {
    let canonical = canonical::to_bytes(expected).unwrap_or_default();
    let expected: Map<String, Value> = serde_json::from_slice(&canonical).unwrap_or_default();
    let differs = |(name, value): &(String, Value)| stated.get(name) != Some(value);
    expected.into_iter().filter(differs).map(|(name, _)| name).collect()
}

fn named(key: &Value, story: &Story, roots: &Roots, findings: &mut Findings) {
    let text = |name: &str| key.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let operation = &story.operation;
    findings.same("/key/key_id", "the operation's key", &text("key_id"), &operation.key.key_id.to_string());
    findings.same("/key/key_ref", "the operation's key", &text("key_ref"), &operation.key.key_ref.0);
    let public = text("public_key_artifact_ref");
    if let Some(pinned) = roots.keys.get(&operation.key.key_id) {
        findings.same("/key/public_key_artifact_ref", "the key among the roots", &public, pinned);
    }
    let is_child =
        operation.admission.as_ref().is_some_and(|admission| admission.decision.derivation.is_some());
    let published = operation.signature.as_ref().filter(|_| operation.phase == Phase::Published && !is_child);
    if let Some(signature) = published {
        let signed_under = format!("{}:{}", signature.signature_profile, signature.public_key_hex);
        if signed_under != public {
            findings.add("/key/public_key_artifact_ref", format!("the signature is under `{signed_under}`"));
        }
    }
    if let Some(made) = shares::of_key(operation).filter(|made| !public.ends_with(&format!(":{made}"))) {
        findings.add("/key/public_key_artifact_ref", format!("the published shares are of `{made}`"));
    }
}
