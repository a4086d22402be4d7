//! `bundle build`: from sources to a bundle that wants nothing but signatures.

use crate::{Error, cargo, component, layout, source};
use gateway_domain::canonical::digest_bytes;
use gateway_domain::ids::Hex32;
use gateway_policy::bundle::{COMPONENT_FILE, is_signature, pack};
use gateway_policy::{BundleFiles, PolicyEngine};
use serde::Serialize;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// What is to be built.
#[derive(Clone, Debug)]
pub struct Build {
    /// Cargo's folder, or one below it.
    pub sources: PathBuf,
    /// The `cdylib`, where `sources` has several.
    pub package: Option<String>,
    /// The bundle's folder, with a draft of its manifest.
    pub bundle: PathBuf,
    /// Whether cargo's lock must be right as it is: for every build that somebody repeats.
    pub locked: bool,
}

/// What was built.
#[derive(Clone, Debug, Serialize)]
pub struct Built {
    /// SHA-256 of the component.
    pub component: Hex32,
    /// Its size.
    pub component_bytes: usize,
    /// What is to be signed.
    pub bundle_hash: Hex32,
    /// Whether anything is not as it was.
    pub changed: bool,
    /// Signatures of what the bundle was before, which went.
    pub signatures_dropped: usize,
}

impl fmt::Display for Built {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { component, component_bytes, bundle_hash, changed, signatures_dropped } = self;
        writeln!(f, "component   {component} ({component_bytes} bytes)")?;
        writeln!(f, "bundle hash {bundle_hash}{}", if *changed { "" } else { " (unchanged)" })?;
        if *signatures_dropped > 0 {
            writeln!(f, "signatures  {signatures_dropped} of the bundle before this dropped")?;
        }
        Ok(())
    }
}

/// Builds the component, and completes the manifest with hashes and capabilities.
///
/// # Errors
/// What cargo says, or [`Error::Bundle`] for a draft or component that no bundle may have; nothing is written then.
pub fn build(build: &Build) -> Result<Built, Error> {
    let folder = source::folder(&build.bundle)?;
    let before = BundleFiles::read(&folder)?;
    let after = pack::complete(&PolicyEngine::new()?, &with_component(&before, &compile(build)?)?)?;
    write(&folder, &before, &after)
}

/// Copies a component that another tool built into the bundle, and completes the manifest.
///
/// # Errors
/// [`Error::Read`] for a component that cannot be read, [`Error::Bundle`] for a draft or component that no bundle may
/// have; nothing is written then.
pub fn with_component_file(bundle: &Path, component: &Path) -> Result<Built, Error> {
    let folder = source::folder(bundle)?;
    let before = BundleFiles::read(&folder)?;
    let after = with_component(&before, &layout::read(component)?)?;
    write(&folder, &before, &pack::complete(&PolicyEngine::new()?, &after)?)
}

/// Completes the manifest of a bundle whose component another tool made, for languages that [`build`] does not know.
///
/// # Errors
/// [`Error::Bundle`] for a draft or component that no bundle may have; nothing is written then.
pub fn complete(bundle: &Path) -> Result<Built, Error> {
    let folder = source::folder(bundle)?;
    let before = BundleFiles::read(&folder)?;
    write(&folder, &before, &pack::complete(&PolicyEngine::new()?, &before)?)
}

/// Makes the folder's files `after`, where they are not.
fn write(folder: &Path, before: &BundleFiles, after: &BundleFiles) -> Result<Built, Error> {
    let gone: Vec<_> = before.iter().map(|(name, _)| name).filter(|name| after.get(name).is_err()).collect();
    for (name, bytes) in after.iter().filter(|(name, bytes)| before.get(name).ok() != Some(bytes)) {
        layout::write(&folder.join(name), bytes)?;
    }
    for name in &gone {
        let path = folder.join(name);
        fs::remove_file(&path).map_err(|source| Error::Write { path, source })?;
    }
    let component = after.get(COMPONENT_FILE)?;
    Ok(Built {
        component: digest_bytes("", component),
        component_bytes: component.len(),
        bundle_hash: after.bundle_hash()?,
        changed: before != after,
        signatures_dropped: gone.iter().filter(|name| is_signature(name)).count(),
    })
}

/// Builds the component and compares it with the one in the bundle; writes nothing to it.
///
/// # Errors
/// What cargo says, or [`Error::NotReproduced`] with both hashes.
pub fn check(build: &Build) -> Result<Built, Error> {
    let files = source::read(&build.bundle)?;
    let (there, built) = (files.get(COMPONENT_FILE)?, compile(build)?);
    if there != built {
        let (there, built) = (digest_bytes("", there), digest_bytes("", &built));
        return Err(Error::NotReproduced { there, built });
    }
    Ok(Built {
        component: digest_bytes("", &built),
        component_bytes: built.len(),
        bundle_hash: files.bundle_hash()?,
        changed: false,
        signatures_dropped: 0,
    })
}

/// The bundle of a source folder with the component that its sources give now, in memory.
///
/// # Errors
/// As [`build`].
pub fn in_memory(sources: &Path) -> Result<BundleFiles, Error> {
    let build =
        Build { sources: sources.to_owned(), package: None, bundle: sources.to_owned(), locked: false };
    let files = with_component(&source::read(sources)?, &compile(&build)?)?;
    Ok(pack::complete(&PolicyEngine::new()?, &files)?)
}

fn compile(build: &Build) -> Result<Vec<u8>, Error> {
    let package = cargo::component_package(&build.sources, build.package.as_deref())?;
    component::encode(&layout::read(&cargo::build(&package, build.locked)?)?)
}

fn with_component(files: &BundleFiles, component: &[u8]) -> Result<BundleFiles, Error> {
    Ok(files.with([(COMPONENT_FILE.to_owned(), component.to_vec())])?)
}
