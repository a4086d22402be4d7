//! Opening fields of a redacted event.

use super::{Disclosure, Visibility, shown};
use serde_json::{Map, Value, json};

/// The reason why a disclosure does not open its field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisclosureError {
    /// There is no commitment at its path.
    #[error("there is no commitment at `{0}`")]
    NoCommitment(String),
    /// Salt and value do not match the commitment.
    #[error("the field at `{0}` is not what was committed to")]
    Mismatch(String),
    /// The masked text does not match the value.
    #[error("what is shown at `{0}` is not of its value")]
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
        let place = redacted
            .pointer_mut(&disclosure.path)
            .filter(|found| is_commitment(found))
            .ok_or_else(|| DisclosureError::NoCommitment(path()))?;
        let commitment = disclosure.commitment().map_err(|_| DisclosureError::Mismatch(path()))?;
        if place.get("commitment") != Some(&json!(commitment)) {
            return Err(DisclosureError::Mismatch(path()));
        }
        let mask = shown(&disclosure.value, Visibility::Masked);
        if place.get("shown").is_some_and(|shown| Some(shown) != mask.map(Value::from).as_ref()) {
            return Err(DisclosureError::Mask(path()));
        }
        place.clone_from(&disclosure.value);
    }
    // An opened value may look like a commitment, so opened values are not searched.
    let opened: Vec<&str> = disclosures.iter().map(|disclosure| disclosure.path.as_str()).collect();
    let mut closed = Vec::new();
    take_closed(&mut redacted, &mut String::new(), &opened, &mut closed);
    Ok(Opened { event: redacted, closed })
}

/// Whether redaction wrote this: a commitment, perhaps with a masked text.
fn is_commitment(value: &Value) -> bool {
    value.as_object().is_some_and(|members: &Map<String, Value>| {
        members.get("commitment").is_some_and(Value::is_string)
            && members.keys().all(|name| name == "commitment" || name == "shown")
    })
}

fn take_closed(value: &mut Value, path: &mut String, opened: &[&str], closed: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            members.retain(|name, member| !at(path, name, |path| is_closed(member, path, opened, closed)))
        }
        Value::Array(items) => {
            let mut index = 0_usize;
            items.retain_mut(|item| {
                let name = index.to_string();
                index = index.saturating_add(1);
                !at(path, &name, |path| is_closed(item, path, opened, closed))
            });
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_closed(value: &mut Value, path: &mut String, opened: &[&str], closed: &mut Vec<String>) -> bool {
    if opened.contains(&path.as_str()) {
        return false;
    }
    if is_commitment(value) {
        closed.push(path.clone());
        return true;
    }
    take_closed(value, path, opened, closed);
    false
}

fn at<T>(path: &mut String, name: &str, with: impl FnOnce(&mut String) -> T) -> T {
    let length = path.len();
    super::push_token(path, name);
    let given = with(path);
    path.truncate(length);
    given
}
