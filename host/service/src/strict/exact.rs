//! Reads the messages that our own processes send to each other: larger than a client's requests, and of any shape that serde
//! writes.

use super::parse::parse;
use super::read::{member_segment, pointer_segment};
use super::{Fault, FaultCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

/// Reads a body. Rejects duplicate members, nesting deeper than [`super::DEPTH_MAX`], members that `T` does not have, and an array
/// in place of an object, which serde alone would accept.
///
/// # Errors
/// The first [`Fault`].
pub fn read_exact<T: DeserializeOwned + Serialize>(body: &[u8]) -> Result<T, Fault> {
    parse(body)?;
    let json = &mut serde_json::Deserializer::from_slice(body);
    let value: T = serde_path_to_error::deserialize(json).map_err(|error| {
        let pointer: String = error.path().iter().filter(is_named).map(pointer_segment).collect();
        Fault::at(pointer, format!("does not fit: {}", reason(error.inner())))
    })?;
    if let (Ok(received), Ok(written)) = (serde_json::from_slice(body), serde_json::to_value(&value)) {
        compare(&received, &written)?;
    }
    Ok(value)
}

fn is_named(segment: &&Segment) -> bool {
    !matches!(segment, Segment::Unknown)
}

/// The message of serde_json without the position in the text, which the pointer replaces.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

/// Compares a body with what it was read as, written again. A member without content may be missing there.
fn compare(received: &Value, written: &Value) -> Result<(), Fault> {
    match (received, written) {
        (Value::Array(_), Value::Object(_)) => {
            Err(Fault::at("", "must be an object, not an array").of(FaultCode::WrongType))
        }
        (Value::Array(received), Value::Array(written)) => {
            let mut pairs = received.iter().zip(written).enumerate();
            pairs.try_for_each(|(index, (received, written))| {
                compare(received, written).map_err(|fault| fault.within(&format!("/{index}")))
            })
        }
        (Value::Object(received), Value::Object(written)) => received.iter().try_for_each(|(name, value)| {
            let compared = match written.get(name) {
                Some(written) => compare(value, written),
                None if is_empty(value) => Ok(()),
                None => Err(Fault::at("", "is not a member of this request").of(FaultCode::UnknownMember)),
            };
            compared.map_err(|fault| fault.within(&member_segment(name)))
        }),
        _ => Ok(()),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Serialize, Deserialize)]
    struct Outer {
        at: u64,
        inner: Option<Inner>,
        either: Either,
    }

    #[derive(Debug, Serialize, Deserialize)]
    struct Inner {
        name: String,
    }

    #[derive(Debug, Serialize, Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Either {
        Left { inner: Inner },
    }

    fn fault(text: &str) -> String {
        read_exact::<Outer>(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn message_of_another_form_is_refused_at_its_position() {
        let either = r#""either":{"type":"left","inner":{"name":"a"}}"#;
        let valid = format!(r#"{{"at":18446744073709551615,"inner":null,{either}}}"#);
        assert_eq!(read_exact::<Outer>(valid.as_bytes()).unwrap().at, u64::MAX);
        let cases = [
            (format!(r#"{{"at":1,"at":2,{either}}}"#), "the body is refused: member `at` appears twice"),
            (format!(r#"{{"at":1,"x":1,{either}}}"#), "`/x` is not a member of this request"),
            (format!(r#"{{"at":1,"inner":["a"],{either}}}"#), "`/inner` must be an object, not an array"),
            (
                format!(r#"{{"at":"1",{either}}}"#),
                "`/at` does not fit: invalid type: string \"1\", expected u64",
            ),
            (
                r#"{"at":1,"either":{"type":"left","inner":["a"]}}"#.to_owned(),
                "`/either/inner` must be an object",
            ),
            (
                r#"{"at":1,"either":{"type":"left","inner":{"name":"a","x":1}}}"#.to_owned(),
                "`/either/inner/x` is not a member",
            ),
            (format!("{{\"at\":1,{either}}}x"), "the body is not JSON"),
            (String::new(), "the body is missing"),
        ];
        for (text, expected) in cases {
            assert!(fault(&text).starts_with(expected), "{text}: {}", fault(&text));
        }
    }
}
