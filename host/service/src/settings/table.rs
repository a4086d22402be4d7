//! The rows of settings, by area and for a whole process.

/// Longest time, in milliseconds: ten years. More is a wrong unit, and could overflow the timestamps of a database or clock.
pub const MILLISECONDS_MAX: u64 = 10 * 366 * 24 * 3_600_000;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The key in the file, in snake case. The flag is the same in kebab case; the environment variable is the table's prefix
    /// and the name in upper case.
    pub name: &'static str,
    /// The default; [`Table::production_defaults`] has those of the production profile that differ.
    pub default: &'static str,
    /// Unit or form of the value, for `--help`.
    pub unit: &'static str,
    /// Help text.
    pub help: &'static str,
}

impl Setting {
    /// The flag, without its dashes.
    #[must_use]
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }
}

/// The settings of one area: a heading of `--help`, and a table of the file.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// The name of the table in the file.
    pub name: &'static str,
    /// The heading in `--help`.
    pub heading: &'static str,
    /// The settings, in the order of `--help`.
    pub settings: &'static [Setting],
}

/// All settings of a process.
#[derive(Debug)]
pub struct Table {
    /// The prefix of environment variables.
    pub prefix: &'static str,
    /// The settings by area, in the order of `--help`.
    pub sections: &'static [Section],
    /// Defaults of the production profile that differ. `None`: the setting must be given.
    pub production_defaults: &'static [(&'static str, Option<&'static str>)],
    /// The settings that a new deployment needs first. The short help lists only these.
    pub first: &'static [&'static str],
    /// Secrets, which only the environment may have: flags and settings files are readable by more people.
    pub secrets: &'static [&'static str],
}

impl Table {
    /// Every setting, in the order of `--help`.
    pub fn all(&self) -> impl Iterator<Item = &'static Setting> {
        self.sections.iter().flat_map(|section| section.settings)
    }

    /// A setting's environment variable.
    #[must_use]
    pub fn variable(&self, name: &str) -> String {
        format!("{}{}", self.prefix, name.to_uppercase())
    }

    /// A setting's default in production; `None` if it must be given there.
    #[must_use]
    pub fn production_default(&self, setting: &Setting) -> Option<&'static str> {
        let differs = self.production_defaults.iter().find(|(name, _)| *name == setting.name);
        differs.map_or(Some(setting.default), |(_, default)| *default)
    }
}
