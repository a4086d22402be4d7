//! `bundle build`: makes a bundle from its sources, complete except for signatures.

use crate::bundle::{Error, cargo, layout, source};
use gateway_domain::canonical::digest_bytes;
use gateway_domain::ids::Hex32;
use gateway_policy::bundle::{COMPONENT_FILE, is_signature, pack};
use gateway_policy::snapshot::initialized;
use gateway_policy::{BundleFiles, PolicyEngine};
use gateway_service::output::{Lines, ToLines};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use wit_component::{ComponentEncoder, metadata};

/// The arguments of `bundle build`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Build {
    /// The policy's sources: the folder of its cargo workspace, or a folder below it
    #[arg(value_name = "DIR")]
    sources: PathBuf,
    /// The bundle's folder, with a draft of its manifest [default: `bundle` in the sources]
    #[arg(long = "into", value_name = "BUNDLE")]
    bundle: Option<PathBuf>,
    /// The cdylib, if the sources have several
    #[arg(long, value_name = "NAME")]
    package: Option<String>,
    /// Fail if Cargo.lock would have to change
    #[arg(long)]
    locked: bool,
    /// Take this component or core module, built by another tool, instead of building one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["package", "locked"])]
    component: Option<PathBuf>,
}

impl Build {
    fn bundle(&self) -> &Path {
        self.bundle.as_deref().unwrap_or(&self.sources)
    }
}

/// The report of `bundle build` and `bundle complete`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Built {
    pub(crate) component: Hex32,
    pub(crate) component_bytes: usize,
    /// SHA-256 of the canonical manifest, which signatures cover.
    pub(crate) bundle_hash: Hex32,
    pub(crate) changed: bool,
    /// The number of signatures of the previous bundle that were removed.
    pub(crate) signatures_dropped: usize,
}

impl ToLines for Built {
    fn add_to(&self, lines: &mut Lines) {
        let Self { component, component_bytes, bundle_hash, changed, signatures_dropped } = self;
        lines.add(format_args!("component   {component} ({component_bytes} bytes)"));
        lines.add(format_args!("bundle hash {bundle_hash}{}", if *changed { "" } else { " (unchanged)" }));
        if *signatures_dropped > 0 {
            lines.add(format_args!("signatures  {signatures_dropped} of the previous bundle dropped"));
        }
    }
}

/// Builds the component, or takes the one that another tool built, and completes the manifest with hashes and capabilities.
///
/// # Errors
/// Cargo's errors, [`Error::Read`] for a component that cannot be read, [`Error::Bundle`] for a draft or component that a bundle
/// may not have, or [`Error::Write`]. With the others, nothing is written.
pub(crate) fn build(build: &Build) -> Result<Built, Error> {
    let folder = source::folder(build.bundle())?;
    let before = BundleFiles::read(&folder)?;
    let after = pack::complete(&PolicyEngine::new()?, &with_component(&before, &compile(build, &before)?)?)?;
    write_changes(&folder, &before, &after)
}

/// Completes the manifest of a bundle whose component was built by another tool, for languages other than Rust.
pub(crate) fn complete(bundle: &Path) -> Result<Built, Error> {
    let folder = source::folder(bundle)?;
    let before = BundleFiles::read(&folder)?;
    write_changes(&folder, &before, &pack::complete(&PolicyEngine::new()?, &before)?)
}

/// Writes the files that differ from `before`, and removes those that `after` does not have.
fn write_changes(folder: &Path, before: &BundleFiles, after: &BundleFiles) -> Result<Built, Error> {
    let removed: Vec<_> =
        before.iter().map(|(name, _)| name).filter(|name| after.get(name).is_err()).collect();
    for (name, bytes) in after.iter().filter(|(name, bytes)| before.get(name).ok() != Some(bytes)) {
        layout::write(&folder.join(name), bytes)?;
    }
    for name in &removed {
        let path = folder.join(name);
        fs::remove_file(&path).map_err(|source| Error::Write { path, source })?;
    }
    let component = after.get(COMPONENT_FILE)?;
    Ok(Built {
        component: digest_bytes("", component),
        component_bytes: component.len(),
        bundle_hash: after.bundle_hash()?,
        changed: before != after,
        signatures_dropped: removed.iter().filter(|name| is_signature(name)).count(),
    })
}

/// Builds the component and compares it with the bundle's. Writes nothing to the bundle.
///
/// # Errors
/// Cargo's errors, or [`Error::NotReproduced`] with both hashes.
pub(crate) fn check(build: &Build) -> Result<Built, Error> {
    let files = source::read(build.bundle())?;
    let (committed, built) = (files.get(COMPONENT_FILE)?, compile(build, &files)?);
    if committed != built {
        let (committed, built) = (digest_bytes("", committed), digest_bytes("", &built));
        return Err(Error::NotReproduced { committed, built });
    }
    Ok(Built {
        component: digest_bytes("", &built),
        component_bytes: built.len(),
        bundle_hash: files.bundle_hash()?,
        changed: false,
        signatures_dropped: 0,
    })
}

/// Builds the component of a source folder, and returns the bundle with it. Writes nothing to the bundle.
pub(crate) fn build_in_memory(sources: &Path) -> Result<BundleFiles, Error> {
    let build =
        Build { sources: sources.to_owned(), bundle: None, package: None, locked: false, component: None };
    let files = source::read(sources)?;
    let files = with_component(&files, &compile(&build, &files)?)?;
    Ok(pack::complete(&PolicyEngine::new()?, &files)?)
}

/// The component for a bundle of these files: a module that wants to be initialized is, with their data. A module without a WIT world
/// stays one, for the error that it will get.
fn compile(build: &Build, files: &BundleFiles) -> Result<Vec<u8>, Error> {
    let module = match &build.component {
        Some(component) => layout::read(component)?,
        None => {
            let package = cargo::component_package(&build.sources, build.package.as_deref())?;
            layout::read(&cargo::build(&package, build.locked)?)?
        }
    };
    if PolicyEngine::is_module(&module) && has_world(&module) {
        encode(&initialized(&module, files).map_err(Box::new)?)
    } else {
        Ok(module)
    }
}

/// Whether a custom section of the module has its WIT world (ADR 0014).
fn has_world(module: &[u8]) -> bool {
    metadata::decode(module).is_ok_and(|(without, _)| without.is_some())
}

/// Encodes a core module as a component.
fn encode(module: &[u8]) -> Result<Vec<u8>, Error> {
    let encoded = ComponentEncoder::default().validate(true).module(module).and_then(|mut it| it.encode());
    encoded.map_err(|fault| Error::Component(format!("{fault:#}").replace('\n', " ")))
}

fn with_component(files: &BundleFiles, component: &[u8]) -> Result<BundleFiles, Error> {
    Ok(files.with([(COMPONENT_FILE.to_owned(), component.to_vec())])?)
}
