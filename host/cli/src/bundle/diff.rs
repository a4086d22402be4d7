//! `bundle diff`: the differences between two bundles, for the reviewer of a new version.

mod data;
mod verdicts;

use crate::bundle::{Error, source, trial};
pub(crate) use data::Change;
use data::changed;
use gateway_domain::ids::Hex32;
use gateway_policy::PolicyEngine;
use gateway_policy::bundle::{Declaration, Manifest};
use gateway_service::output::{Lines, ToLines};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
pub(crate) use verdicts::Verdicts;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Difference {
    pub(crate) old: Hex32,
    pub(crate) new: Hex32,
    /// Changed members of the manifest, and changed data.
    pub(crate) changes: Vec<Change>,
    /// The answers to the vectors of both bundles.
    pub(crate) verdicts: Verdicts,
}

impl ToLines for Difference {
    fn add_to(&self, lines: &mut Lines) {
        lines.add(format_args!("old         {}", self.old));
        lines.add(format_args!("new         {}", self.new));
        for Change { what, old, new } in &self.changes {
            match (old, new) {
                (Some(old), Some(new)) => lines.add(format_args!("~ {what}: {old} -> {new}")),
                (None, Some(new)) => lines.add(format_args!("+ {what}: {new}")),
                (Some(old), None) => lines.add(format_args!("- {what}: {old}")),
                (None, None) => {}
            }
        }
        self.verdicts.add_to(lines);
    }
}

/// Compares two bundles, each a folder or an archive: their contents, and their answers to vectors.
pub(crate) fn diff(old: &Path, new: &Path) -> Result<Difference, Error> {
    let engine = PolicyEngine::new()?;
    let load = |path: &Path| trial::load(&engine, &source::read(path)?);
    let (old, new) = (load(old)?, load(new)?);
    let mut changes = manifest_changes(old.bundle.manifest(), new.bundle.manifest());
    changes.extend(data::changes(old.bundle.files(), new.bundle.files()));
    Ok(Difference {
        old: old.bundle.hash(),
        new: new.bundle.hash(),
        changes,
        verdicts: verdicts::compare(&old, &new)?,
    })
}

/// Members of the manifest that changed, which include the hashes of files.
fn manifest_changes(old: &Manifest, new: &Manifest) -> Vec<Change> {
    changed(&members(old), &members(new))
}

/// The members of a manifest by name; a list has one entry for each element.
fn members(manifest: &Manifest) -> BTreeMap<String, String> {
    let Manifest { bundle_id, version, sequence, world, not_before_ms, not_after_ms, limits, .. } = manifest;
    let mut all = BTreeMap::from([
        ("bundle_id".to_owned(), bundle_id.clone()),
        ("version".to_owned(), version.clone()),
        ("sequence".to_owned(), sequence.to_string()),
        ("world".to_owned(), world.clone()),
        ("limits/fuel".to_owned(), limits.fuel.to_string()),
        ("limits/memory_bytes".to_owned(), limits.memory_bytes.to_string()),
    ]);
    all.extend(not_before_ms.map(|ms| ("not_before_ms".to_owned(), ms.to_string())));
    all.extend(not_after_ms.map(|ms| ("not_after_ms".to_owned(), ms.to_string())));
    let import =
        |name: &String| (format!("import {name}"), crate::bundle::inspect::permission(name).to_owned());
    all.extend(manifest.capabilities.iter().map(import));
    all.extend(manifest.facts.iter().map(|name| (format!("fact {name}"), "may be read".to_owned())));
    all.extend(manifest.reasons.iter().map(|it| declaration("reason", it)));
    all.extend(manifest.obligations.iter().map(|it| declaration("obligation", it)));
    all.extend(manifest.files.iter().map(|(name, hash)| (format!("file {name}"), hash.to_string())));
    all
}

fn declaration(what: &str, declared: &Declaration) -> (String, String) {
    let Declaration { code, text, severity, remedy } = declared;
    let severity = format!("{severity:?}").to_lowercase();
    let remedy = if remedy.is_empty() { String::new() } else { format!(" Remedy: {remedy}") };
    (format!("{what} {code}"), format!("({severity}) {text}{remedy}"))
}
