//! What a registry says of a subject, beyond its keys and roles: which person it is, and attributes for policies.

use crate::names::is_visible;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most attributes of a subject.
const ATTRIBUTES_MAX: usize = 16;

/// Most bytes of an attribute's name.
const NAME_BYTES_MAX: usize = 32;

/// Most bytes of an attribute's value, and of a person's name.
const VALUE_BYTES_MAX: usize = 256;

/// What the registry says of a subject. It is recorded with each submission, approval and rejection as the gateway's registry says it at
/// that time; authorities and nodes compare it with their own registries.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registered {
    /// The person. Absent if the subject has no other subject id.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub person: Option<String>,
    /// Attributes, such as `team`, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub attributes: BTreeMap<String, String>,
}

impl Registered {
    /// Checks names and values; `None` if nothing is said.
    ///
    /// # Errors
    /// What is invalid, for people.
    pub fn checked(self) -> Result<Option<Box<Self>>, String> {
        if let Some(person) = &self.person {
            check_text("person", person)?;
        }
        if self.attributes.len() > ATTRIBUTES_MAX {
            return Err(format!("`attributes` must have at most {ATTRIBUTES_MAX} entries"));
        }
        for (name, value) in &self.attributes {
            check_attribute(name)?;
            check_text(name, value)?;
        }
        Ok((self != Self::default()).then(|| Box::new(self)))
    }
}

/// The person that a subject is: two subjects are one human exactly if [`is_same_person`](crate::names::is_same_person) holds for these.
#[must_use]
pub fn person<'a>(subject_id: &'a str, registered: Option<&'a Registered>) -> &'a str {
    registered.and_then(|registered| registered.person.as_deref()).unwrap_or(subject_id)
}

/// Members that a person has for a policy anyway.
const TAKEN: [&str; 4] = ["client_id", "person", "roles", "subject_id"];

fn check_attribute(name: &str) -> Result<(), String> {
    let is_name = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    if name.len() > NAME_BYTES_MAX || !is_name || TAKEN.contains(&name) {
        let shown: String = name.escape_debug().take(NAME_BYTES_MAX).collect();
        return Err(format!(
            "an attribute's name must be a lowercase letter, then lowercase letters, digits and `_`, at most {NAME_BYTES_MAX} \
             in all, and none of {}: `{shown}`",
            TAKEN.map(|taken| format!("`{taken}`")).join(", "),
        ));
    }
    Ok(())
}

fn check_text(member: &str, text: &str) -> Result<(), String> {
    let is_seen = text.trim() == text && !text.is_empty() && text.chars().all(is_visible);
    if is_seen && text.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "`{member}` must have 1 to {VALUE_BYTES_MAX} bytes of visible characters, and no space at the ends"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(name: &str, value: &str) -> Registered {
        Registered { person: None, attributes: BTreeMap::from([(name.to_owned(), value.to_owned())]) }
    }

    #[test]
    fn names_and_values_that_cannot_be_read_are_refused() {
        for (name, value) in [
            ("", "a"),
            ("Team", "a"),
            ("2team", "a"),
            ("team-a", "a"),
            ("te\u{301}am", "a"),
            ("roles", "a"),
            ("person", "a"),
            (&"t".repeat(33), "a"),
            ("team", ""),
            ("team", " a"),
            ("team", "a\nb"),
            ("team", "a\u{202e}b"),
            ("team", "\u{200b}"),
            ("team", &"a".repeat(257)),
        ] {
            assert!(attribute(name, value).checked().is_err(), "{name:?} = {value:?}");
        }
        let many = (0..17).map(|number| (format!("a{number}"), "a".to_owned())).collect();
        assert!(Registered { person: None, attributes: many }.checked().is_err());
        let person = |name: &str| Registered { person: Some(name.to_owned()), ..Registered::default() };
        assert!(person("a\u{7}").checked().is_err() && person("").checked().is_err());
        assert_eq!(Registered::default().checked(), Ok(None));
        assert!(attribute("team", "Z\u{fc}rich \u{26}").checked().unwrap().is_some());
        assert!(attribute(&"t".repeat(32), &"a".repeat(256)).checked().unwrap().is_some());
    }

    #[test]
    fn subject_is_its_own_person_unless_the_registry_says_otherwise() {
        let alice = Registered { person: Some("alice".to_owned()), ..Registered::default() };
        assert_eq!(person("alice-phone", Some(&alice)), "alice");
        assert_eq!(person("alice-phone", Some(&attribute("team", "a"))), "alice-phone");
        assert_eq!(person("alice-phone", None), "alice-phone");
    }
}
