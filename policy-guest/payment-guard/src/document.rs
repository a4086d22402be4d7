//! Reads the bundle's data files strictly: a file that is not in the documented form denies.

use gateway_policy_sdk::{Answer, Data, json, step};

/// Characters of a malformed value that a reason shows.
const SHOWN_CHARACTERS_MAX: usize = 80;

/// A value that does not have the form required at its place.
pub(crate) struct Unusable {
    place: String,
    expected: &'static str,
    value: String,
}

pub(crate) type Read<T> = Result<T, Unusable>;

impl Unusable {
    pub(crate) fn new(place: impl Into<String>, expected: &'static str, value: &str) -> Self {
        let value = value.chars().take(SHOWN_CHARACTERS_MAX).collect();
        Self { place: place.into(), expected, value }
    }

    pub(crate) fn deny(&self, answer: &mut Answer) {
        let operands =
            [("place", &*["data/", &self.place].concat()), ("must_be", self.expected), ("is", &self.value)];
        answer.deny("data_unreadable", &operands);
    }
}

/// The result of looking up a name in a list of a file.
pub(crate) enum Entry {
    /// The file does not exist.
    NoFile,
    /// The file does not have the list.
    NoList,
    /// The list does not have the name.
    Unlisted,
    /// The entry: a string's text, or any other value as JSON.
    Listed(String),
}

/// Looks up `name` in the object `list` of a file. A match does not parse the rest of the file.
pub(crate) fn entry(
    data: &dyn Data,
    file: &str,
    list: &str,
    known: &'static [&'static str],
    name: &str,
) -> Read<Entry> {
    let found = data.get(file, &["/", list, "/", &step(name)].concat());
    // A number would also match an element of an array, which is not the documented form.
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(found) = found.clone().filter(|_| !is_number) {
        return Ok(Entry::Listed(found));
    }
    let Some(whole) = data.get(file, "") else { return Ok(Entry::NoFile) };
    let mut has_list = false;
    for (member, value) in members(file, &whole)? {
        check_known(file, &member, known, value)?;
        if member == list {
            check_object(&at(file, list), value)?;
            has_list = true;
        }
    }
    Ok(match found {
        Some(found) => Entry::Listed(found),
        None if has_list => Entry::Unlisted,
        None => Entry::NoList,
    })
}

/// The members of an object; any other value is [`Unusable`].
pub(crate) fn members<'a>(
    place: &str,
    value: &'a str,
) -> Read<impl Iterator<Item = (std::borrow::Cow<'a, str>, &'a str)>> {
    json::members(value).ok_or_else(|| Unusable::new(place, "an object", value))
}

pub(crate) fn check_object(place: &str, value: &str) -> Read<()> {
    members(place, value).map(drop)
}

/// Rejects an unknown member: a misspelt one must not count as left out.
pub(crate) fn check_known(place: &str, member: &str, known: &[&str], value: &str) -> Read<()> {
    if known.contains(&member) { Ok(()) } else { Err(unknown(place, member, value)) }
}

pub(crate) fn unknown(place: &str, member: &str, value: &str) -> Unusable {
    Unusable::new(at(place, member), "left out, for it is no member of this file's form", value)
}

/// A whole number, at least 0.
pub(crate) fn number(place: &str, member: &str, value: &str) -> Read<u64> {
    value.parse().map_err(|_| Unusable::new(at(place, member), "a whole number from 0 on", value))
}

/// `true` or `false`.
pub(crate) fn flag(place: &str, member: &str, value: &str) -> Read<bool> {
    value.parse().map_err(|_| Unusable::new(at(place, member), "true or false", value))
}

/// The place of a member: `limits.json /currencies/EUR` and `x` give `limits.json /currencies/EUR/x`.
pub(crate) fn at(place: &str, member: &str) -> String {
    let separator = if place.contains(' ') { "/" } else { " /" };
    [place, separator, member].concat()
}
