//! From flags, environment and file to one text for each setting.

use super::table::{ENVIRONMENT_PREFIX, SECRETS, SETTINGS, Setting};
use std::collections::BTreeMap;
use std::fmt;
use zeroize::Zeroizing;

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The command line.
    Flag,
    /// The environment.
    Environment,
    /// The settings file.
    File,
    /// The profile's default.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::File => "file",
            Self::Default => "default",
        })
    }
}

/// Each setting's text and where it came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    texts: BTreeMap<&'static str, (String, Source)>,
    secrets: BTreeMap<&'static str, Secret>,
}

/// A secret that came from the environment: wiped when it is dropped, and shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub(crate) const fn expose(&self) -> &Zeroizing<String> {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Resolved {
    /// The text of a setting; empty for one that must be given and was not.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.texts.get(name).map_or("", |(text, _)| text)
    }

    /// A secret, where there is one.
    pub(super) fn secret(&self, name: &str) -> Option<&Secret> {
        self.secrets.get(name)
    }

    /// Whether somebody said what it is to be; an empty text says nothing.
    pub(super) fn is_given(&self, name: &str) -> bool {
        let is_text = |(text, source): &(String, Source)| *source != Source::Default && !text.is_empty();
        self.texts.get(name).is_some_and(is_text) || self.secrets.contains_key(name)
    }

    /// In the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Setting, &str, Source)> {
        SETTINGS.iter().filter_map(|setting| {
            let (text, source) = self.texts.get(setting.name)?;
            Some((setting, text.as_str(), *source))
        })
    }
}

/// Settles every setting: flag over environment over file over the profile's default.
///
/// # Errors
/// One line for each fault: a name nobody knows, or a setting that must be given.
pub fn resolve(
    flags: &BTreeMap<String, String>,
    environment: impl IntoIterator<Item = (String, String)>,
    file: Option<&str>,
) -> Result<Resolved, Vec<String>> {
    let mut faults = Vec::new();
    let (environment, secrets) = from_environment(environment, &mut faults);
    let file = file.map(|text| from_file(text, &mut faults)).unwrap_or_default();
    let given = |name: &str| {
        let sources = [(flags, Source::Flag), (&environment, Source::Environment), (&file, Source::File)];
        sources.into_iter().find_map(|(values, source)| Some((values.get(name)?.clone(), source)))
    };
    let production = given("profile").is_some_and(|(profile, _)| profile == "production");
    let mut resolved = Resolved { texts: BTreeMap::new(), secrets };
    for setting in SETTINGS {
        let default = if production { setting.production } else { Some(setting.development) };
        match given(setting.name).or_else(|| Some((default?.to_owned(), Source::Default))) {
            Some(value) => drop(resolved.texts.insert(setting.name, value)),
            None => faults.push(format!(
                "setting `{}` must be given in production (`{}` or `--{}`)",
                setting.name,
                setting.variable(),
                setting.flag()
            )),
        }
    }
    if faults.is_empty() { Ok(resolved) } else { Err(faults) }
}

fn from_environment(
    environment: impl IntoIterator<Item = (String, String)>,
    faults: &mut Vec<String>,
) -> (BTreeMap<String, String>, BTreeMap<&'static str, Secret>) {
    let (mut values, mut secrets) = (BTreeMap::new(), BTreeMap::new());
    for (variable, value) in environment {
        let Some(name) = variable.strip_prefix(ENVIRONMENT_PREFIX).map(str::to_lowercase) else { continue };
        if name == "config" {
            continue;
        }
        if let Some(secret) = SECRETS.iter().find(|secret| **secret == name) {
            let value = Zeroizing::new(value);
            if !value.is_empty() {
                secrets.insert(*secret, Secret(value));
            }
        } else if SETTINGS.iter().any(|setting| setting.name == name) {
            values.insert(name, value);
        } else {
            faults.push(format!("environment variable `{variable}` names no setting"));
        }
    }
    (values, secrets)
}

fn from_file(text: &str, faults: &mut Vec<String>) -> BTreeMap<String, String> {
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => {
            faults.push(format!("settings file is not TOML: {}", error.message()));
            return BTreeMap::new();
        }
    };
    let mut values = BTreeMap::new();
    for (name, value) in table {
        let text = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(flag) => flag.to_string(),
            toml::Value::Float(_)
            | toml::Value::Datetime(_)
            | toml::Value::Array(_)
            | toml::Value::Table(_) => {
                faults.push(format!("settings file: `{name}` must be a string, an integer or a boolean"));
                continue;
            }
        };
        if SETTINGS.iter().any(|setting| setting.name == name) {
            values.insert(name, text);
        } else {
            faults.push(format!("settings file: `{name}` names no setting"));
        }
    }
    values
}
