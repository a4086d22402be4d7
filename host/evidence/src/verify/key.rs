//! The key: what the document says of it is what the log's operator stated, and it is the key of the operation. What the
//! operation made of it is in `shares`.

use super::Read;
use super::report::{Findings, Report};
use super::shares;
use super::story::Story;
use crate::document::KEY_STATE;
use crate::roots::Roots;
use gateway_domain::log::SignedStatement;
use gateway_domain::operation::Phase;
use serde_json::Value;

const NAME: &str = "key";

pub(crate) fn check(read: &Read, story: &Story, roots: &Roots, report: &mut Report) {
    let mut findings = Findings::default();
    let key = read.members.get("key").unwrap_or(&Value::Null);
    let note = read.members.get("key_note").and_then(Value::as_str).unwrap_or_default();
    match note.parse::<SignedStatement>() {
        Err(error) => findings.add("/key_note", error.to_string()),
        Ok(statement) => {
            if statement.to_string() != note {
                findings.add("/key_note", "is spelt otherwise than a note is written");
            }
            if let Err(error) = statement.verify(&roots.logs, KEY_STATE, key) {
                findings.add("/key", format!("is not what `key_note` states: {error}"));
            }
        }
    }
    shares::check(story, &mut findings);
    let seen = match key.get("state").and_then(Value::as_str) {
        None => "there is none yet".to_owned(),
        Some(state) => {
            named(key, story, roots, &mut findings);
            format!("`{state}`, as stated by the log's key")
        }
    };
    report.add(NAME, findings, seen);
}

fn named(key: &Value, story: &Story, roots: &Roots, findings: &mut Findings) {
    let text = |name: &str| key.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let operation = &story.operation;
    findings.same("/key/key_id", "the operation's key", &text("key_id"), &operation.key.key_id.to_string());
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
