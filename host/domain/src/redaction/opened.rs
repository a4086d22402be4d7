//! Opening fields of a redacted event.

use super::Disclosure;
use super::walk::{last_four, push_token};
use serde_json::{Map, Value, json};

/// The reason why a disclosure does not open its field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisclosureError {
    /// There is no commitment at its path.
    #[error("there is no commitment at `{0}`")]
    NoCommitment(String),
    /// Salt and value do not match the commitment.
    #[error("the value and salt of `{0}` do not match its commitment")]
    Mismatch(String),
    /// The masked text does not match the value.
    #[error("the masked text at `{0}` does not match the value")]
    Mask(String),
}

/// A redacted event with some fields opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The event, with the opened fields in place and without the closed ones.
    pub event: Value,
    /// JSON pointers of the fields that are still closed.
    pub closed: Vec<String>,
}

/// Opens the fields of a redacted event.
///
/// # Errors
/// [`DisclosureError`] for the first disclosure that does not match.
pub fn open(mut redacted: Value, disclosures: &[Disclosure]) -> Result<Opened, DisclosureError> {
    for disclosure in disclosures {
        let path = || disclosure.path.clone();
        let field = redacted
            .pointer_mut(&disclosure.path)
            .filter(|found| is_commitment(found))
            .ok_or_else(|| DisclosureError::NoCommitment(path()))?;
        let commitment = disclosure.commitment().map_err(|_| DisclosureError::Mismatch(path()))?;
        if field.get("commitment") != Some(&json!(commitment)) {
            return Err(DisclosureError::Mismatch(path()));
        }
        let mask = disclosure.value.as_str().map(last_four);
        if field.get("shown").is_some_and(|shown| Some(shown) != mask.map(Value::from).as_ref()) {
            return Err(DisclosureError::Mask(path()));
        }
        field.clone_from(&disclosure.value);
    }
    // An opened value may look like a commitment, so opened values are not searched.
    let opened: Vec<&str> = disclosures.iter().map(|disclosure| disclosure.path.as_str()).collect();
    let mut closed = Vec::new();
    remove_closed(&mut redacted, &mut String::new(), &opened, &mut closed);
    Ok(Opened { event: redacted, closed })
}

/// Whether this has the form of a commitment, perhaps with a masked text.
fn is_commitment(value: &Value) -> bool {
    value.as_object().is_some_and(|members: &Map<String, Value>| {
        members.get("commitment").is_some_and(Value::is_string)
            && members.keys().all(|name| name == "commitment" || name == "shown")
    })
}

/// Removes the commitments in `value` that are not opened, and adds their paths to `closed`. `path` is the path of `value`.
fn remove_closed(value: &mut Value, path: &mut String, opened: &[&str], closed: &mut Vec<String>) {
    match value {
        Value::Object(members) => members
            .retain(|name, member| !with_token(path, name, |path| is_closed(member, path, opened, closed))),
        Value::Array(items) => {
            let mut index = 0_usize;
            items.retain_mut(|item| {
                let name = index.to_string();
                index = index.saturating_add(1);
                !with_token(path, &name, |path| is_closed(item, path, opened, closed))
            });
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether `value` itself is a commitment that is not opened. If not, removes those in it.
fn is_closed(value: &mut Value, path: &mut String, opened: &[&str], closed: &mut Vec<String>) -> bool {
    if opened.contains(&path.as_str()) {
        return false;
    }
    if is_commitment(value) {
        closed.push(path.clone());
        return true;
    }
    remove_closed(value, path, opened, closed);
    false
}

/// Calls `run` with the pointer extended by one token.
fn with_token<T>(path: &mut String, token: &str, run: impl FnOnce(&mut String) -> T) -> T {
    let length = path.len();
    push_token(path, token);
    let result = run(path);
    path.truncate(length);
    result
}
