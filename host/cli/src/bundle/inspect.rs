//! `bundle inspect`: prints the contents of a bundle without verifying them.

use crate::bundle::{Error, source};
use gateway_domain::canonical::digest_bytes;
use gateway_domain::dsse::Envelope;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::facts::{FactClass, classes};
use gateway_policy::BundleFiles;
use gateway_policy::bundle::{Declaration, MANIFEST_FILE, Manifest, PAYLOAD_TYPE, is_signature};
use gateway_service::output::{Lines, ToLines};
use serde::Serialize;
use std::path::Path;

/// The contents of a bundle.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Inspected {
    /// SHA-256 of the canonical manifest.
    pub(crate) bundle_hash: Hex32,
    pub(crate) manifest: Manifest,
    /// The manifest's `capabilities`, explained.
    pub(crate) imports: Vec<Import>,
    /// Files that differ from the manifest.
    pub(crate) faults: Vec<String>,
    /// The claimed signatures, which `inspect` does not verify.
    pub(crate) signatures: Vec<Claim>,
}

/// One import of the component.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Import {
    pub(crate) name: String,
    /// What it permits a policy to do.
    pub(crate) allows: String,
}

/// A claimed signature, not verified.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Claim {
    pub(crate) file: String,
    pub(crate) key_ids: Vec<String>,
    pub(crate) is_of_this_manifest: bool,
}

/// Reads the bundle at `path`, which needs a valid manifest only.
pub(crate) fn inspect(path: &Path) -> Result<Inspected, Error> {
    let files = source::read(path)?;
    let manifest = Manifest::parse(files.get(MANIFEST_FILE)?)?;
    let canonical = manifest.canonical_bytes()?;
    let imports = manifest.capabilities.iter();
    Ok(Inspected {
        bundle_hash: digest_bytes("", &canonical),
        imports: imports
            .map(|name| Import { name: name.clone(), allows: permission(name).to_owned() })
            .collect(),
        faults: faults(&files, &manifest),
        signatures: signatures(&files, &canonical),
        manifest,
    })
}

/// What an import permits a policy to do.
#[must_use]
pub(crate) fn permission(import: &str) -> &'static str {
    let interface = import.split('@').next().unwrap_or(import);
    match interface {
        "svc:policy/types" => "nothing: the shapes of the request and of the verdict",
        "svc:policy/facts" => "reading the facts listed; each one read is recorded with its value",
        "svc:bundle/log" => {
            "telling the author why it failed; shown with a fault, and never recorded without one"
        }
        "svc:bundle/data" => "reading the bundle's own signed files under data/",
        "wasi:cli/environment" | "wasi:cli/stdin" | "wasi:cli/terminal-input" => "nothing: they are empty",
        "wasi:clocks/wall-clock" => "reading the fact `time.now_ms`, which is recorded like any other",
        "wasi:clocks/monotonic-clock" => "nothing: the clock stands still",
        "wasi:random/random" | "wasi:random/insecure" | "wasi:random/insecure-seed" => {
            "numbers that follow from the request, the same at every evaluation of it"
        }
        _ if interface.starts_with("wasi:filesystem/") => "nothing: there is no folder",
        _ if interface.starts_with("wasi:sockets/") => "nothing: there is no network",
        _ if interface.starts_with("wasi:") => {
            "nothing: a stub that the runtime of a language needs to start"
        }
        _ => "unknown: no gateway provides it",
    }
}

fn faults(files: &BundleFiles, manifest: &Manifest) -> Vec<String> {
    let listed = manifest.files.iter().filter_map(|(name, hash)| match files.get(name) {
        Err(_) => Some(format!("`{name}` is missing")),
        Ok(bytes) if digest_bytes("", bytes) != *hash => Some(format!("`{name}` was changed")),
        Ok(_) => None,
    });
    let is_extra =
        |name: &&str| *name != MANIFEST_FILE && !is_signature(name) && !manifest.files.contains_key(*name);
    let extra = files.iter().map(|(name, _)| name).filter(is_extra);
    listed.chain(extra.map(|name| format!("`{name}` is not in the manifest"))).collect()
}

fn signatures(files: &BundleFiles, manifest: &[u8]) -> Vec<Claim> {
    let this = Envelope::seal(PAYLOAD_TYPE, manifest, &[]);
    let claim = |(name, bytes): (&str, &[u8])| {
        let envelope: Option<Envelope> = serde_json::from_slice(bytes).ok();
        let payload = envelope.as_ref().map(|it| it.payload.as_str());
        Claim {
            file: name.to_owned(),
            key_ids: envelope.iter().flat_map(|it| &it.signatures).map(|it| it.keyid.clone()).collect(),
            is_of_this_manifest: payload == Some(this.payload.as_str()),
        }
    };
    files.iter().filter(|(name, _)| is_signature(name)).map(claim).collect()
}

impl ToLines for Inspected {
    fn add_to(&self, lines: &mut Lines) {
        let Manifest { bundle_id, version, sequence, world, limits, .. } = &self.manifest;
        lines.add(format_args!("bundle      {bundle_id} {version}, sequence {sequence}"));
        lines.add(format_args!("bundle hash {}", self.bundle_hash));
        lines.add(format_args!("world       {world}"));
        lines.add(format_args!("valid       {}", validity(&self.manifest)));
        lines.add(format_args!("limits      {} fuel, {} bytes of memory", limits.fuel, limits.memory_bytes));
        for Import { name, allows } in &self.imports {
            lines.add(format_args!("import      {name}: {allows}"));
        }
        for fact in &self.manifest.facts {
            let classes = classes(fact).into_iter().map(FactClass::as_str).collect::<Vec<_>>().join(", ");
            lines.add(format_args!("fact        {fact} ({classes})"));
        }
        declarations(lines, "reason", &self.manifest.reasons);
        declarations(lines, "obligation", &self.manifest.obligations);
        for (name, hash) in &self.manifest.files {
            lines.add(format_args!("file        {hash}  {name}"));
        }
        for fault in &self.faults {
            lines.add(format_args!("FAULT       {fault}"));
        }
        for Claim { key_ids, is_of_this_manifest, .. } in &self.signatures {
            let of = if *is_of_this_manifest { "this manifest" } else { "ANOTHER MANIFEST" };
            lines.add(format_args!("signature   by {} over {of}, not verified", key_ids.join(" ")));
        }
    }
}

fn declarations(lines: &mut Lines, what: &str, declared: &[Declaration]) {
    for Declaration { code, text, severity, remedy } in declared {
        let severity = format!("{severity:?}").to_lowercase();
        lines.add(format_args!("{what:<11} {code} ({severity}): {text}"));
        if !remedy.is_empty() {
            lines.add(format_args!("{:11}   remedy: {remedy}", ""));
        }
    }
}

fn validity(manifest: &Manifest) -> String {
    match (manifest.not_before_ms, manifest.not_after_ms) {
        (None, None) => "always".to_owned(),
        (Some(from), None) => format!("from {from} ms on"),
        (None, Some(to)) => format!("to {to} ms"),
        (Some(from), Some(to)) => format!("from {from} ms to {to} ms"),
    }
}
