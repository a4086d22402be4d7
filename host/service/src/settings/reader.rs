//! Parses the texts of settings, and collects the faults.

use super::sources::Resolved;
use super::table::MILLISECONDS_MAX;
use gateway_domain::ids::Hex32;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Reads settings by name. A method that finds a fault adds one line to `faults` and returns a placeholder.
pub struct Reader<'a> {
    /// The texts.
    pub resolved: &'a Resolved,
    /// The faults so far, one line each.
    pub faults: Vec<String>,
}

impl<'a> Reader<'a> {
    /// A reader without faults.
    #[must_use]
    pub const fn new(resolved: &'a Resolved) -> Self {
        Self { resolved, faults: Vec::new() }
    }

    /// Adds the fault of a setting.
    pub fn fault(&mut self, name: &str, message: &str) {
        self.faults.push(format!("setting `{name}` {message}"));
    }

    /// Whether the setting has a fault. Its placeholder must not be compared with other values.
    #[must_use]
    pub fn has_fault(&self, name: &str) -> bool {
        let prefix = format!("setting `{name}` ");
        self.faults.iter().any(|fault| fault.starts_with(&prefix))
    }

    /// A text that must not be empty.
    pub fn text(&mut self, name: &str) -> String {
        let text = self.resolved.text(name).to_owned();
        if text.is_empty() {
            self.fault(name, "must not be empty");
        }
        text
    }

    /// A text that may be empty.
    pub fn any_text(&mut self, name: &str) -> String {
        self.resolved.text(name).to_owned()
    }

    /// A path.
    pub fn file(&mut self, name: &str) -> PathBuf {
        self.text(name).into()
    }

    /// A path; `None` if the text is empty.
    pub fn path(&mut self, name: &str) -> Option<PathBuf> {
        Some(self.resolved.text(name)).filter(|text| !text.is_empty()).map(PathBuf::from)
    }

    /// A value of type `T`; `form` describes it.
    pub fn value<T: FromStr>(&mut self, name: &str, form: &str, placeholder: T) -> T {
        let text = self.resolved.text(name);
        text.parse().unwrap_or_else(|_| {
            self.fault(name, &format!("must be {form}, not `{text}`"));
            placeholder
        })
    }

    /// An address and a port.
    pub fn address(&mut self, name: &str) -> SocketAddr {
        self.value(name, "an address and a port", SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// An address and a port; `None` if the text is empty.
    pub fn optional_address(&mut self, name: &str) -> Option<SocketAddr> {
        (!self.resolved.text(name).is_empty()).then(|| self.address(name))
    }

    /// The texts between the commas, without those that are empty.
    pub fn list(&self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.resolved.text(name).split(',').map(str::trim).filter(|text| !text.is_empty())
    }

    /// Ed25519 public keys, separated by commas.
    pub fn public_keys(&mut self, name: &str) -> Vec<Hex32> {
        self.list(name).map(str::parse).collect::<Result<_, _>>().unwrap_or_else(|_| {
            self.fault(name, "must be public keys of 64 lowercase hexadecimal digits, separated by commas");
            Vec::new()
        })
    }

    /// A whole number in a range.
    pub fn number<T>(&mut self, name: &str, range: RangeInclusive<T>) -> T
    where
        T: FromStr + PartialOrd + std::fmt::Display,
    {
        let text = self.resolved.text(name);
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.unwrap_or_else(|| {
            let (least, most) = range.into_inner();
            self.fault(name, &format!("must be a whole number from {least} to {most}, not `{text}`"));
            least
        })
    }

    /// A time in milliseconds, at least 1.
    pub fn milliseconds(&mut self, name: &str) -> u64 {
        self.number(name, 1..=MILLISECONDS_MAX)
    }

    /// A time that is given in milliseconds.
    pub fn duration(&mut self, name: &str) -> Duration {
        Duration::from_millis(self.milliseconds(name))
    }

    /// `true` or `false`.
    pub fn flag(&mut self, name: &str) -> bool {
        self.one_of(name, &[("true", true), ("false", false)], false)
    }

    /// One of the words, as its value.
    pub fn one_of<T: Copy>(&mut self, name: &str, allowed: &[(&str, T)], placeholder: T) -> T {
        let text = self.resolved.text(name);
        if let Some((_, value)) = allowed.iter().find(|(word, _)| *word == text) {
            return *value;
        }
        let words = allowed.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        self.fault(name, &format!("must be one of {words}, not `{text}`"));
        placeholder
    }
}

/// Reads a whole number in a range.
pub fn number<T>(range: RangeInclusive<T>) -> impl FnOnce(&mut Reader<'_>, &str) -> T
where
    T: FromStr + PartialOrd + std::fmt::Display,
{
    move |reader, name| reader.number(name, range)
}

/// Reads a number of days in a range.
pub fn days(range: RangeInclusive<u32>) -> impl FnOnce(&mut Reader<'_>, &str) -> Duration {
    move |reader, name| Duration::from_secs(u64::from(reader.number(name, range)) * 86_400)
}

/// Reads one of the words, as its value.
pub fn one_of<T: Copy>(allowed: &[(&str, T)], placeholder: T) -> impl FnOnce(&mut Reader<'_>, &str) -> T {
    move |reader, name| reader.one_of(name, allowed, placeholder)
}
