//! `deny`: licences, sources and versions of what we depend on, by the rules in `deny.toml`.
//!
//! `cargo-deny` reads the same file and does more. It takes minutes to build, so it is no condition for a test run:
//! the rules that matter every day are checked here, and a cargo-deny that is installed is run as well.

mod expression;
mod rules;

use crate::cargo::{self, list, text};
use crate::error::Error;
use crate::finding::Finding;
use rules::Rules;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The two workspaces, each with a lock of its own.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "policy-guest/Cargo.toml"];

/// Older ones can not read a lock file of version 4.
const CARGO_DENY_MIN: (u32, u32) = (0, 18);

pub(crate) fn check() -> Result<Vec<Finding>, Error> {
    let rules = Rules::read()?;
    let mut all = Vec::new();
    for manifest in MANIFESTS {
        all.extend(cargo::packages(&["--manifest-path", manifest])?);
    }
    let mut found = licences(&rules, &all);
    found.extend(sources(&rules, &all));
    found.extend(wildcards(&all));
    found.extend(duplicates(&all));
    if cargo_deny_version().is_some_and(|version| version >= CARGO_DENY_MIN) {
        found.extend(cargo::run(&["deny", "--offline", "check", "bans", "licenses", "sources"], &[])?);
    }
    Ok(found)
}

fn cargo_deny_version() -> Option<(u32, u32)> {
    let said = cargo::output("cargo", &["deny", "--version"]).ok()?;
    let mut numbers = said.split_whitespace().nth(1)?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Name and version.
fn shown(package: &Value) -> String {
    format!("`{} {}`", text(package, "name"), text(package, "version"))
}

fn licences(rules: &Rules, packages: &[Value]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut needed = BTreeSet::new();
    for package in packages {
        let licence = text(package, "license");
        match expression::needed(licence, &rules.licences) {
            Some(licences) => needed.extend(licences),
            None if licence.is_empty() => {
                found.push(Finding::error(format!("{} states no licence", shown(package))));
            }
            None => {
                let text =
                    format!("{} has the licence `{licence}`, which deny.toml does not allow", shown(package));
                found.push(Finding::error(text));
            }
        }
    }
    let unused = rules.licences.iter().filter(|licence| !needed.contains(*licence));
    found
        .extend(unused.map(|licence| {
            Finding::warning(format!("no dependency needs `{licence}`")).in_file("deny.toml")
        }));
    found
}

/// A package without a source is ours.
fn sources(rules: &Rules, packages: &[Value]) -> Vec<Finding> {
    let is_allowed = |source: &str| {
        source.strip_prefix("registry+").is_some_and(|registry| rules.registries.contains(registry))
    };
    let foreign = packages.iter().filter(|package| {
        let source = text(package, "source");
        !source.is_empty() && !is_allowed(source)
    });
    foreign
        .map(|package| Finding::error(format!("{} comes from `{}`", shown(package), text(package, "source"))))
        .collect()
}

/// Of our own packages: a dependency by path needs no version, any other does.
fn wildcards(packages: &[Value]) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in packages.iter().filter(|package| text(package, "source").is_empty()) {
        let any_version = |it: &&Value| text(it, "req") == "*" && it.get("path").is_none();
        for dependency in list(package, "dependencies").iter().filter(any_version) {
            let text = format!("{} takes any version of `{}`", shown(package), text(dependency, "name"));
            found.push(Finding::error(text));
        }
    }
    found
}

/// One line for all of them: they cost build time and nothing else.
fn duplicates(packages: &[Value]) -> Vec<Finding> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(text(package, "name")).or_default().insert(text(package, "version"));
    }
    versions.retain(|_, versions| versions.len() > 1);
    if versions.is_empty() {
        return Vec::new();
    }
    let names: Vec<&str> = versions.into_keys().collect();
    vec![Finding::warning(format!("{} packages in several versions: {}", names.len(), names.join(", ")))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const CRATES_IO: &str = "https://github.com/rust-lang/crates.io-index";

    fn rules() -> Rules {
        Rules {
            licences: BTreeSet::from(["MIT".to_owned()]),
            registries: BTreeSet::from([CRATES_IO.to_owned()]),
        }
    }

    #[test]
    fn a_licence_that_is_not_allowed_is_found() {
        let package = |licence: &str| json!({ "name": "x", "version": "1.0.0", "license": licence });
        assert_eq!(licences(&rules(), &[package("MIT OR Apache-2.0")]), []);
        assert_eq!(licences(&rules(), &[package("MIT"), package("GPL-3.0-only")]).len(), 1);
        assert_eq!(licences(&rules(), &[package("MIT"), json!({ "name": "x", "license": null })]).len(), 1);
    }

    #[test]
    fn a_licence_that_nobody_needs_is_a_warning() {
        let found = licences(&rules(), &[]);
        assert!(!found.is_empty() && !found.iter().any(Finding::is_error), "{found:?}");
    }

    #[test]
    fn only_known_registries_are_sources() {
        let package = |source: Value| json!({ "name": "x", "version": "1.0.0", "source": source });
        assert_eq!(
            sources(&rules(), &[package(Value::Null), package(json!(format!("registry+{CRATES_IO}")))]),
            []
        );
        let foreign = ["git+https://example.com/x", "registry+https://example.com/index", CRATES_IO];
        assert_eq!(sources(&rules(), &foreign.map(|source| package(json!(source)))).len(), foreign.len());
    }

    #[test]
    fn our_own_packages_name_versions() {
        let package = |source: Value, dependency: Value| json!({ "name": "x", "source": source, "dependencies": [dependency] });
        let any = json!({ "name": "y", "req": "*" });
        assert_eq!(wildcards(&[package(Value::Null, any.clone())]).len(), 1);
        assert_eq!(wildcards(&[package(json!("registry+x"), any)]), []);
        assert_eq!(wildcards(&[package(Value::Null, json!({ "name": "y", "req": "*", "path": "/y" }))]), []);
        assert_eq!(wildcards(&[package(Value::Null, json!({ "name": "y", "req": "^1" }))]), []);
    }

    #[test]
    fn several_versions_are_one_warning() {
        let package = |version: &str| json!({ "name": "x", "version": version });
        assert_eq!(duplicates(&[package("1.0.0"), package("1.0.0")]), []);
        assert_eq!(duplicates(&[package("1.0.0"), package("2.0.0")]).len(), 1);
    }
}
