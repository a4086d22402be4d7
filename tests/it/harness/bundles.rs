//! Releases of the default policy, signed by test keys.

use super::process::{Process, request, tool};
use ed25519_dalek::SigningKey;
use gateway_domain::ids::Hex32;
use gateway_policy::bundle::{ActivationRecord, MANIFEST_FILE, Manifest, Role, is_signature, pack};
use gateway_policy::{BundleFiles, TrustPolicy};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Enough fuel for the default policy to describe itself, and too little to evaluate.
const FUEL_STARVED: u64 = 2_000;

pub(crate) fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

/// The default policy with another sequence, and so another hash, signed by this key.
pub(crate) fn release(sequence: u64, signer: &SigningKey) -> BundleFiles {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("bundles/payment-guard");
    released(BundleFiles::read(&root).unwrap(), sequence, signer, |_| ())
}

/// As [`release`], with too little fuel for any evaluation. It has no vectors, since it would fail them.
pub(crate) fn starved(sequence: u64, signer: &SigningKey) -> BundleFiles {
    let is_promise = |name: &str| name.starts_with("tests/");
    released(release(sequence, signer).only(|name| !is_promise(name)), sequence, signer, |manifest| {
        manifest.files.retain(|name, _| !is_promise(name));
        manifest.limits.fuel = FUEL_STARVED;
    })
}

fn released(
    files: BundleFiles,
    sequence: u64,
    signer: &SigningKey,
    change: impl FnOnce(&mut Manifest),
) -> BundleFiles {
    let mut manifest = Manifest::parse(files.get(MANIFEST_FILE).unwrap()).unwrap();
    manifest.sequence = sequence;
    manifest.version = format!("test-{sequence}");
    change(&mut manifest);
    let manifest = (MANIFEST_FILE.to_owned(), serde_json::to_vec(&manifest).unwrap());
    let unsigned = files.only(|name| !is_signature(name)).with([manifest]).unwrap();
    unsigned.with([pack::sign(&unsigned, signer).unwrap()]).unwrap()
}

pub(crate) fn hash(files: &BundleFiles) -> String {
    files.bundle_hash().unwrap().to_string()
}

/// A gateway's folder with its own bundle folder, trust roots and activation record.
pub(crate) struct Site(TempDir);

impl Site {
    /// Trusts `key(1)` and `key(2)`.
    pub(crate) fn new() -> Self {
        let site = Self(tempfile::tempdir().unwrap());
        site.trust(&[]);
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn trust(&self, revoked: &[&SigningKey]) {
        let public = |key: &SigningKey| Hex32::new(key.verifying_key().to_bytes());
        let role =
            Role { role: "author".into(), threshold: 1, keys: [public(&key(1)), public(&key(2))].into() };
        let revoked = revoked.iter().map(|key| public(key)).collect();
        let trust = TrustPolicy { roles: vec![role], revoked };
        replace(&self.path("trust.json"), &serde_json::to_vec(&trust).unwrap());
    }

    pub(crate) fn offer(&self, files: &BundleFiles) {
        write_folder(&self.path("bundle"), files);
    }

    pub(crate) fn offer_candidate(&self, files: &BundleFiles) {
        write_folder(&self.path("candidate"), files);
    }

    /// Writes an activation record with this sequence for this bundle.
    pub(crate) fn record(&self, sequence: u64, bundle: &BundleFiles) {
        let record = ActivationRecord {
            sequence,
            bundle_hash: bundle.bundle_hash().unwrap(),
            reason: "a test".into(),
            not_after_ms: None,
        };
        let envelope = record.sign(&[&key(1)]).unwrap();
        replace(&self.path("activation.json"), &serde_json::to_vec(&envelope).unwrap());
    }

    /// Starts the real process, which looks for bundles every `watch_ms` milliseconds; 0: only on SIGHUP.
    pub(crate) fn start(&self, watch_ms: u32, failpoint: Option<&str>) -> Process {
        self.start_with(&[("policy_watch_ms", &watch_ms.to_string())], failpoint)
    }

    /// Starts the real process with settings besides the site's own.
    pub(crate) fn start_with(&self, given: &[(&str, &str)], failpoint: Option<&str>) -> Process {
        self.with_settings(given, |folder, given| Process::start(folder, failpoint, given))
    }

    /// The one-line error of a start that must fail.
    #[track_caller]
    pub(crate) fn refused(&self) -> String {
        self.with_settings(&[], Process::refused)
    }

    /// Runs another command of the same binary on the same data.
    pub(crate) fn tool(&self, arguments: &[&str]) -> (i32, String, String) {
        self.with_settings(&[], |folder, given| tool(folder, given, arguments))
    }

    fn with_settings<T>(&self, given: &[(&str, &str)], run: impl FnOnce(&Path, &[(&str, &str)]) -> T) -> T {
        let paths = [
            ("policy_bundle", self.path("bundle")),
            ("policy_trust_roots", self.path("trust.json")),
            ("policy_activation", self.path("activation.json")),
            ("policy_candidate", self.path("candidate")),
        ];
        let own = paths.iter().map(|(name, path)| (*name, path.to_str().unwrap()));
        let all: Vec<_> = own.chain(given.iter().copied()).collect();
        run(self.0.path(), &all)
    }
}

/// Replaces the file atomically, as an operator should.
pub(crate) fn replace(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::rename(new, path).unwrap();
}

pub(crate) fn write_folder(folder: &Path, files: &BundleFiles) {
    if folder.exists() {
        fs::remove_dir_all(folder).unwrap();
    }
    for (name, bytes) in files.iter() {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// The answer of `GET /v1/policy/bundles`.
pub(crate) fn status(address: &str) -> Value {
    let (code, status) = request(address, "GET", "/v1/policy/bundles", None).unwrap();
    assert_eq!(code, 200, "{status}");
    status
}

/// Polls `GET /v1/policy/bundles` until `holds`.
#[track_caller]
pub(crate) fn until(address: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let status = status(address);
        if holds(&status) {
            return status;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{status:#}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until this bundle is active.
#[track_caller]
pub(crate) fn until_active(address: &str, bundle: &BundleFiles) -> Value {
    let hash = hash(bundle);
    until(address, |status| status["active"]["bundle_hash"] == hash.as_str() && status["fault"].is_null())
}
