//! The name of a new policy.

use crate::bundle::Error;
use std::str::FromStr;

const NAME_CHARACTERS_MAX: usize = 48;

/// Names that are reserved by cargo or rustc, or used by the template's other packages.
const RESERVED: &str = "abstract alloc as async await become box break const continue core crate do dyn else enum extern \
    false final fn for gateway-policy-sdk gen if impl in let loop macro match mod move mut override priv proc-macro pub \
    ref return self static std struct super test trait true try type typeof unsafe unsized use virtual where while \
    wit-bindgen-rt yield";

/// The name of a policy's package, folder and bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyName(
    // INVARIANT: lower case letters, digits and single inner `-`, starting with a letter; `from_str` keeps it.
    String,
);

impl FromStr for PolicyName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let is_permitted = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_valid = text.len() <= NAME_CHARACTERS_MAX
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && !text.ends_with('-')
            && !text.contains("--")
            && text.bytes().all(is_permitted)
            && !RESERVED.split_whitespace().any(|word| word == text);
        if is_valid { Ok(Self(text.to_owned())) } else { Err(Error::PolicyName(text.to_owned())) }
    }
}

impl PolicyName {
    /// The name in lower case, with `-`.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as a type: `AcmeLimits` for `acme-limits`.
    #[must_use]
    pub(crate) fn type_name(&self) -> String {
        let word = |word: &str| {
            let mut characters = word.chars();
            let first = characters.next().map(|first| first.to_ascii_uppercase());
            first.into_iter().chain(characters).collect::<String>()
        };
        self.0.split('-').map(word).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_name_must_be_valid_as_package_folder_and_bundle() {
        for name in ["a", "acme-limits", "guard2", &"a".repeat(48)] {
            assert_eq!(name.parse::<PolicyName>().unwrap().as_str(), name);
        }
        for name in [
            "",
            "a/b",
            "../a",
            ".",
            "a b",
            "A",
            "Acme",
            "a_b",
            "-a",
            "a-",
            "a--b",
            "1a",
            "é",
            "struct",
            "test",
            "gateway-policy-sdk",
            "a\n",
            &"a".repeat(49),
        ] {
            assert!(matches!(name.parse::<PolicyName>(), Err(Error::PolicyName(_))), "{name}");
        }
        assert_eq!("acme-2-limits".parse::<PolicyName>().unwrap().type_name(), "Acme2Limits");
    }
}
