//! Completes and signs bundles.

use super::{
    BundleError, BundleFiles, COMPONENT_FILE, MANIFEST_FILE, Manifest, PAYLOAD_TYPE, is_signature, strict,
};
use crate::PolicyEngine;
use ed25519_dalek::SigningKey;
use gateway_domain::dsse::Envelope;

/// Writes the hashes of all files and the component's imports into the manifest. If that changes it, drops its signatures.
///
/// # Errors
/// [`BundleError`] when the draft or the component is not valid.
pub fn complete(engine: &PolicyEngine, files: &BundleFiles) -> Result<BundleFiles, BundleError> {
    let mut manifest: Manifest = strict::parse(MANIFEST_FILE, files.get(MANIFEST_FILE)?)?;
    manifest.files = files.hashes();
    let engine = engine.for_memory(0)?;
    manifest.capabilities = engine.imports(&engine.compile(files.get(COMPONENT_FILE)?)?);
    let bytes = pretty(&manifest)?;
    let manifest = Manifest::parse(&bytes)?;
    let unchanged =
        manifest.canonical_bytes()? == Manifest::parse(files.get(MANIFEST_FILE)?)?.canonical_bytes()?;
    files.only(|name| unchanged || !is_signature(name)).with([(MANIFEST_FILE.to_owned(), bytes)])
}

/// Signs the manifest among `files` with this key. Returns name and content of the signature file.
///
/// # Errors
/// [`BundleError`] when the manifest is not valid.
pub fn sign(files: &BundleFiles, key: &SigningKey) -> Result<(String, Vec<u8>), BundleError> {
    let payload = Manifest::parse(files.get(MANIFEST_FILE)?)?.canonical_bytes()?;
    let signed = super::signature(PAYLOAD_TYPE, &payload, key);
    let name = format!("signatures/{}.json", signed.0);
    let envelope = Envelope::seal(PAYLOAD_TYPE, &payload, &[signed]);
    Ok((name, pretty(&envelope)?))
}

fn pretty<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, BundleError> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|fault| BundleError::Json { file: MANIFEST_FILE.to_owned(), fault: fault.to_string() })?;
    bytes.push(b'\n');
    Ok(bytes)
}
