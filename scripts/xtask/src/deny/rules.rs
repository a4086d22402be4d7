//! What of `deny.toml` is checked here.

use crate::error::Error;
use crate::tree;
use std::collections::BTreeSet;
use toml::Table;

#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// `licenses.allow`.
    pub(super) licences: BTreeSet<String>,
    /// `sources.allow-registry`.
    pub(super) registries: BTreeSet<String>,
}

impl Rules {
    pub(super) fn read() -> Result<Self, Error> {
        let file = tree::toml_file("deny.toml")?;
        Ok(Self {
            licences: texts(&file, "licenses", "allow"),
            registries: texts(&file, "sources", "allow-registry"),
        })
    }
}

fn texts(file: &Table, section: &str, key: &str) -> BTreeSet<String> {
    let listed = file.get(section).and_then(|it| it.get(key)).and_then(toml::Value::as_array);
    listed.into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned)).collect()
}
