//! Reads the text of each setting from flags, environment, file and default.

use super::{Section, Setting, Table};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::marker::PhantomData;
use zeroize::Zeroizing;

/// The source of a value.
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

/// The text of each setting, and its source.
#[derive(Clone, Debug)]
pub struct Resolved {
    table: &'static Table,
    texts: BTreeMap<&'static str, (String, Source)>,
    secrets: BTreeMap<&'static str, Secret>,
}

/// A secret from the environment: zeroised on drop, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The secret itself.
    #[must_use]
    pub const fn expose(&self) -> &Zeroizing<String> {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Resolved {
    /// The text of a setting; empty if the name is unknown.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.texts.get(name).map_or("", |(text, _)| text)
    }

    /// A secret, if it was given.
    #[must_use]
    pub fn secret(&self, name: &str) -> Option<&Secret> {
        self.secrets.get(name)
    }

    /// Whether a source other than the default gives the setting a text that is not empty.
    #[must_use]
    pub fn is_given(&self, name: &str) -> bool {
        let is_text = |(text, source): &(String, Source)| *source != Source::Default && !text.is_empty();
        self.texts.get(name).is_some_and(is_text) || self.secrets.contains_key(name)
    }

    /// Every setting with its text and source, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Setting, &str, Source)> {
        self.table.all().filter_map(|setting| {
            let (text, source) = self.texts.get(setting.name)?;
            Some((setting, text.as_str(), *source))
        })
    }
}

/// Determines every setting: flag over environment over file over the profile's default.
///
/// # Errors
/// One line for each unknown name, and for each setting that must be given.
pub fn resolve(
    table: &'static Table,
    flags: &BTreeMap<String, String>,
    environment: impl IntoIterator<Item = (String, String)>,
    file: Option<&str>,
) -> Result<Resolved, Vec<String>> {
    let mut faults = Vec::new();
    let (environment, secrets) = from_environment(table, environment, &mut faults);
    let file = file.map(|text| from_file(table, text, &mut faults)).unwrap_or_default();
    let given = |name: &str| {
        let sources = [(flags, Source::Flag), (&environment, Source::Environment), (&file, Source::File)];
        sources.into_iter().find_map(|(values, source)| Some((values.get(name)?.clone(), source)))
    };
    let is_production = given("profile").is_some_and(|(profile, _)| profile == "production");
    let mut resolved = Resolved { table, texts: BTreeMap::new(), secrets };
    for setting in table.all() {
        let default = if is_production { table.production_default(setting) } else { Some(setting.default) };
        match given(setting.name).or_else(|| Some((default?.to_owned(), Source::Default))) {
            Some(value) => drop(resolved.texts.insert(setting.name, value)),
            None => faults.push(format!(
                "setting `{}` must be given in production (`{}` or `--{}`)",
                setting.name,
                table.variable(setting.name),
                setting.flag()
            )),
        }
    }
    if faults.is_empty() { Ok(resolved) } else { Err(faults) }
}

fn from_environment(
    table: &'static Table,
    environment: impl IntoIterator<Item = (String, String)>,
    faults: &mut Vec<String>,
) -> (BTreeMap<String, String>, BTreeMap<&'static str, Secret>) {
    let (mut values, mut secrets) = (BTreeMap::new(), BTreeMap::new());
    for (variable, value) in environment {
        let Some(name) = variable.strip_prefix(table.prefix).map(str::to_lowercase) else { continue };
        if name == "config" {
            continue;
        }
        if let Some(secret) = table.secrets.iter().find(|secret| **secret == name) {
            let value = Zeroizing::new(value);
            if !value.is_empty() {
                secrets.insert(*secret, Secret(value));
            }
        } else if table.all().any(|setting| setting.name == name) {
            values.insert(name, value);
        } else if !is_service_link(&name, &value) {
            faults.push(format!("environment variable `{variable}` names no setting"));
        }
    }
    (values, secrets)
}

/// Whether Kubernetes or Docker set the variable for a service that has the name of this program: `<NAME>_PORT=tcp://…`, and others with
/// the parts of that address.
fn is_service_link(name: &str, value: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(port) = name.strip_prefix("port_") {
        let mut parts = port.splitn(3, '_');
        let (number, protocol, part) = (parts.next(), parts.next(), parts.next());
        return number.is_some_and(is_number)
            && matches!(protocol, Some("tcp" | "udp" | "sctp"))
            && matches!(part, None | Some("proto" | "port" | "addr"));
    }
    match name {
        "port" => value.split_once("://").is_some_and(|(scheme, _)| matches!(scheme, "tcp" | "udp" | "sctp")),
        "service_host" => value.parse::<std::net::IpAddr>().is_ok(),
        _ => (name == "service_port" || name.starts_with("service_port_")) && is_number(value),
    }
}

/// Reads the file. A setting is in the table of its section, or outside of all tables.
fn from_file(table: &Table, text: &str, faults: &mut Vec<String>) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    let file: toml::Table = match text.parse() {
        Ok(file) => file,
        Err(error) => {
            faults.push(format!("settings file is not TOML: {}", error.message()));
            return values;
        }
    };
    for (name, value) in file {
        match (table.sections.iter().find(|section| section.name == name), value) {
            (Some(section), toml::Value::Table(table)) => {
                for (name, value) in table {
                    add(&mut values, std::slice::from_ref(section), name, value, faults);
                }
            }
            (_, value) => add(&mut values, table.sections, name, value, faults),
        }
    }
    values
}

fn add(
    values: &mut BTreeMap<String, String>,
    sections: &[Section],
    name: String,
    value: toml::Value,
    faults: &mut Vec<String>,
) {
    let text = match value {
        toml::Value::String(text) => text,
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Boolean(flag) => flag.to_string(),
        toml::Value::Float(_) | toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
            return faults.push(format!("settings file: `{name}` must be a string, an integer or a boolean"));
        }
    };
    if !sections.iter().flat_map(|section| section.settings).any(|setting| setting.name == name) {
        let table =
            if let [section] = sections { format!(" in `[{}]`", section.name) } else { String::new() };
        faults.push(format!("settings file: `{name}`{table} names no setting"));
        return;
    }
    match values.entry(name) {
        Entry::Vacant(entry) => drop(entry.insert(text)),
        Entry::Occupied(entry) => faults.push(format!("settings file: `{}` is given twice", entry.key())),
    }
}

/// The settings of one kind of process.
pub trait ProcessSettings: Clone + Send + Sync + 'static {
    /// Its settings.
    const TABLE: &'static Table;

    /// Parses every setting and checks them against each other.
    ///
    /// # Errors
    /// One line for each fault.
    fn parse(resolved: &Resolved) -> Result<Self, Vec<String>>;
}

/// The flags of the command line, one for each setting of `T`'s table, and `--config`.
#[derive(Clone, Debug)]
pub struct Flags<T>(BTreeMap<String, String>, PhantomData<T>);

impl<T: ProcessSettings> Flags<T> {
    /// These flags, and of `before` those that are not given here.
    #[must_use]
    pub fn or(&self, before: &Self) -> Self {
        let mut flags = before.0.clone();
        flags.extend(self.0.clone());
        Self(flags, PhantomData)
    }

    /// Resolves every setting. The settings file is named by `--config`, or by the environment.
    ///
    /// # Errors
    /// One line for each fault.
    pub fn resolve(
        &self,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Resolved, Vec<String>> {
        let environment: Vec<_> = environment.into_iter().collect();
        let variable = T::TABLE.variable("config");
        let variable = environment.iter().find(|(name, _)| *name == variable);
        let file = self.0.get("config").or(variable.map(|(_, value)| value)).map(|path| {
            let text = std::fs::read_to_string(path);
            text.map_err(|error| vec![format!("settings file `{path}` cannot be read: {}", error.kind())])
        });
        resolve(T::TABLE, &self.0, environment, file.transpose()?.as_deref())
    }

    /// Resolves every setting from these flags, the process's environment and the settings file.
    ///
    /// # Errors
    /// One line for each fault.
    pub fn resolve_here(&self) -> Result<Resolved, Vec<String>> {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        self.resolve(std::env::vars_os().filter_map(text))
    }
}

impl<T: ProcessSettings> FromArgMatches for Flags<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |name: &str| Some((name.to_owned(), matches.get_one::<String>(name)?.clone()));
        let names = T::TABLE.all().map(|setting| setting.name).chain(["config"]);
        Ok(Self(names.filter_map(given).collect(), PhantomData))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?.or(self);
        Ok(())
    }
}

impl<T: ProcessSettings> Args for Flags<T> {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .help(format!("TOML file of settings [env: {}]", T::TABLE.variable("config")));
        let settings = T::TABLE
            .sections
            .iter()
            .flat_map(|section| section.settings.iter().map(move |setting| (section, setting)));
        let (first, others): (Vec<_>, Vec<_>) =
            settings.partition(|(_, setting)| T::TABLE.first.contains(&setting.name));
        let first = first
            .into_iter()
            .map(|(_, setting)| argument(T::TABLE, setting).help_heading("Settings to start with"));
        let others = others.into_iter().map(|(section, setting)| {
            argument(T::TABLE, setting).help_heading(section.heading).hide_short_help(true)
        });
        command.arg(file).args(first).args(others)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument(table: &Table, setting: &'static Setting) -> Arg {
    let mut help = setting.help.to_owned();
    let mut note = |name: &str, default: &str| help.push_str(&format!(" [{name}: {default}]"));
    match (setting.default, table.production_default(setting)) {
        ("", Some("")) => {}
        (default, Some(production)) if default == production => note("default", default),
        (default, Some(production)) => {
            note("default", default);
            note("in production", if production.is_empty() { "empty" } else { production });
        }
        (default, None) => {
            note("default", default);
            note("in production", "required");
        }
    }
    note("env", &table.variable(setting.name));
    Arg::new(setting.name).long(setting.flag()).value_name(setting.unit).help(help)
}
