//! The data files of a bundle, and the documents of a deployment.

use crate::json;
use std::borrow::Cow;

/// The signed files under the bundle's `data/`. The gateway parses them once and looks up values itself, so that a policy
/// needs no JSON parser. Decision records do not list the lookups: the bundle's hash pins every file.
pub trait Data {
    /// The value at a JSON pointer (RFC 6901) in `data/<file>`: a string as its text, anything else as JSON without white
    /// space, members sorted by name. `None` if the file or the value does not exist. `""` selects the whole document.
    fn get(&self, file: &str, pointer: &str) -> Option<String>;

    /// A whole number; `None` if the value does not exist.
    ///
    /// # Errors
    /// [`UnreadableData`] if the value is not a signed 64-bit whole number. Deny in that case: guessing is not safe.
    fn integer(&self, file: &str, pointer: &str) -> Result<Option<i64>, UnreadableData> {
        read(file, pointer, self.get(file, pointer), |value| value.parse().ok())
    }

    /// `true` or `false`; `None` if the value does not exist.
    ///
    /// # Errors
    /// [`UnreadableData`] if the value is neither. Deny in that case: guessing is not safe.
    fn flag(&self, file: &str, pointer: &str) -> Result<Option<bool>, UnreadableData> {
        read(file, pointer, self.get(file, pointer), |value| match value {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        })
    }

    /// A list of strings; `None` if the value does not exist.
    ///
    /// # Errors
    /// [`UnreadableData`] if the value is not a list of strings.
    fn texts(&self, file: &str, pointer: &str) -> Result<Option<Vec<String>>, UnreadableData> {
        read(file, pointer, self.get(file, pointer), |list| {
            json::items(list)?.map(|item| Some(json::text(item)?.into_owned())).collect()
        })
    }
}

/// The signed documents of the deployment, by name in the place of a file: exchange rates, holidays, whatever changes more often than the
/// bundle. The manifest declares each among its facts, as `document.NAME`; the gateway records which one was read.
///
/// A document that is missing or has expired has no values: a policy that needs it must deny then. A component that uses this imports
/// `svc:bundle/documents`. There are none in a native build: let your rule take a `&dyn Data`, and give it
/// [`testing::data`](crate::testing::data) in tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Documents;

impl Data for Documents {
    #[cfg(target_arch = "wasm32")]
    fn get(&self, name: &str, pointer: &str) -> Option<String> {
        crate::bindings::svc::bundle::documents::get(name, pointer)
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn get(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

/// Escapes a name for use as one step of a JSON pointer: `~` becomes `~0`, and `/` becomes `~1`.
#[must_use]
pub fn step(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) {
        Cow::Owned(name.replace('~', "~0").replace('/', "~1"))
    } else {
        Cow::Borrowed(name)
    }
}

fn read<T>(
    file: &str,
    pointer: &str,
    value: Option<String>,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, UnreadableData> {
    match value {
        None => Ok(None),
        Some(value) => match parse(&value) {
            Some(parsed) => Ok(Some(parsed)),
            None => Err(UnreadableData { file: file.into(), pointer: pointer.into(), value }),
        },
    }
}

/// A value that does not have the requested type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableData {
    /// The file, below `data/`, or the name of the document.
    pub file: String,
    /// The JSON pointer into the file.
    pub pointer: String,
    /// The value found there.
    pub value: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::data;

    #[test]
    fn a_value_of_another_type_is_an_error_that_names_its_place() {
        let data = data(&[(
            "a.json",
            r#"{"n":-5,"yes":true,"roles":["a","b \"c\""],"mixed":["a",1],"x/y~z":"text"}"#,
        )]);
        assert_eq!(data.integer("a.json", "/n"), Ok(Some(-5)));
        assert_eq!(data.flag("a.json", "/yes"), Ok(Some(true)));
        assert_eq!(data.texts("a.json", "/roles"), Ok(Some(vec!["a".into(), "b \"c\"".into()])));
        assert_eq!(data.get("a.json", &["/", &step("x/y~z")].concat()).as_deref(), Some("text"));
        for none in ["/m", "/n/0"] {
            assert_eq!((data.integer("a.json", none), data.texts("b.json", none)), (Ok(None), Ok(None)));
        }
        assert!(data.integer("a.json", "/yes").is_err() && data.flag("a.json", "/n").is_err());
        let fault = data.texts("a.json", "/mixed").unwrap_err();
        assert_eq!((fault.pointer.as_str(), fault.value.as_str()), ("/mixed", r#"["a",1]"#));
        assert!(data.texts("a.json", "/n").is_err() && data.texts("a.json", "").is_err());
    }
}
