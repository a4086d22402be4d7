//! Releases of the default policy that are signed by test keys, and gateways that load them from files.

use super::process::{Process, request, run};
use super::wire::poll;
use ed25519_dalek::SigningKey;
use gateway_domain::policy::Decision;
use gateway_policy::BundleFiles;
use gateway_policy::bundle::{ActivationRecord, Expectation, Manifest};
use gateway_policy::testing::{committed, role, signed, trust, with_one_vector};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) use gateway_policy::testing::{key, obliging_bundle, paid_bundle, write_folder};

/// Enough fuel for the default policy to describe itself, and too little to evaluate.
pub(crate) const FUEL_STARVED: u64 = 2_000;

/// The default policy with this sequence, and so another hash, signed by `signer`.
pub(crate) fn release(sequence: u64, signer: &SigningKey) -> BundleFiles {
    alter_and_sign(&committed(), sequence, signer, |_| ())
}

/// As [`release`], without the rules that permit custody operations.
pub(crate) fn release_without_custody(sequence: u64, signer: &SigningKey) -> BundleFiles {
    let is_custody = |name: &str| name.ends_with("/custody.json");
    let files = release(sequence, signer).only(|name| !is_custody(name));
    alter_and_sign(&files, sequence, signer, |manifest| manifest.files.retain(|name, _| !is_custody(name)))
}

/// As [`release`], with too little fuel for any evaluation.
pub(crate) fn starved_release(sequence: u64, signer: &SigningKey) -> BundleFiles {
    faulty_release(sequence, signer, "out_of_fuel", |manifest| manifest.limits.fuel = FUEL_STARVED)
}

/// As [`release`], but declares no facts, so that the first one that the policy reads ends the evaluation.
pub(crate) fn undeclaring_release(sequence: u64, signer: &SigningKey) -> BundleFiles {
    faulty_release(sequence, signer, "undeclared_fact", |manifest| manifest.facts.clear())
}

/// As [`release`], with a manifest that makes every evaluation end in this fault, and with one vector, which expects that.
fn faulty_release(
    sequence: u64,
    signer: &SigningKey,
    fault: &str,
    change: impl FnOnce(&mut Manifest),
) -> BundleFiles {
    let expect = Expectation {
        decision: Decision::Deny,
        reasons: vec![format!("policy_fault:{fault}")],
        obligations: Vec::new(),
        subjects: Vec::new(),
        required: 0,
        satisfied: false,
    };
    with_one_vector(&release(sequence, signer), signer, |_| (), expect, change)
}

/// These files with a changed manifest, signed by `signer` alone.
fn alter_and_sign(
    files: &BundleFiles,
    sequence: u64,
    signer: &SigningKey,
    change: impl FnOnce(&mut Manifest),
) -> BundleFiles {
    signed(files, &[signer], |manifest| {
        (manifest.sequence, manifest.version) = (sequence, format!("test-{sequence}"));
        change(manifest);
    })
}

pub(crate) fn hash(files: &BundleFiles) -> String {
    files.bundle_hash().unwrap().to_string()
}

/// A gateway's folder, with the files of policy settings in it: bundle, candidate, trust roots and activation record.
pub(crate) struct Site(TempDir);

impl Site {
    /// Writes trust roots with `key(1)` and `key(2)`, and no bundle.
    pub(crate) fn new() -> Self {
        let site = Self(tempfile::tempdir().unwrap());
        site.trust(&[]);
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes trust roots with `key(1)` and `key(2)`, and these keys revoked.
    pub(crate) fn trust(&self, revoked: &[&SigningKey]) {
        let trust = trust(vec![role("author", 1, &[&key(1), &key(2)])], revoked);
        replace(&self.path("trust.json"), &serde_json::to_vec(&trust).unwrap());
    }

    /// Replaces the bundle folder; the gateway decides whether to activate it.
    pub(crate) fn offer(&self, files: &BundleFiles) {
        write_folder(&self.path("bundle"), files);
    }

    pub(crate) fn offer_candidate(&self, files: &BundleFiles) {
        write_folder(&self.path("candidate"), files);
    }

    /// Writes a signed activation record with this sequence for this bundle.
    pub(crate) fn write_record(&self, sequence: u64, bundle: &BundleFiles) {
        let record = ActivationRecord {
            sequence,
            bundle_hash: bundle.bundle_hash().unwrap(),
            reason: "a test".into(),
            not_after_ms: None,
        };
        let envelope = record.sign(&[&key(1)]).unwrap();
        replace(&self.path("activation.json"), &serde_json::to_vec(&envelope).unwrap());
    }

    /// Starts the real process. It reads the files again every `watch_ms` milliseconds, or only on SIGHUP if that is 0.
    pub(crate) fn start(&self, watch_ms: u32, failpoint: Option<&str>) -> Process {
        self.start_with(&[("policy_watch_ms", &watch_ms.to_string())], failpoint)
    }

    /// Starts the real process with further settings.
    pub(crate) fn start_with(&self, overrides: &[(&str, &str)], failpoint: Option<&str>) -> Process {
        self.with_settings(overrides, |folder, overrides| Process::start(folder, failpoint, overrides))
    }

    /// The one-line error of a start that must fail.
    #[track_caller]
    pub(crate) fn start_error(&self) -> String {
        self.with_settings(&[], Process::start_error)
    }

    /// Runs a subcommand on the same data; returns exit code, standard output and standard error.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        self.with_settings(&[], |folder, overrides| run(folder, overrides, arguments))
    }

    fn with_settings<T>(
        &self,
        overrides: &[(&str, &str)],
        run: impl FnOnce(&Path, &[(&str, &str)]) -> T,
    ) -> T {
        let paths = [
            ("policy_bundle", self.path("bundle")),
            ("policy_trust_roots", self.path("trust.json")),
            ("policy_activation", self.path("activation.json")),
            ("policy_candidate", self.path("candidate")),
        ];
        let paths = paths.iter().map(|(name, path)| (*name, path.to_str().unwrap()));
        let all: Vec<_> = paths.chain(overrides.iter().copied()).collect();
        run(self.0.path(), &all)
    }
}

/// Replaces the file atomically.
pub(crate) fn replace(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::rename(new, path).unwrap();
}

/// The answer of `GET /v1/policy/bundles`.
pub(crate) fn status(address: &str) -> Value {
    let (code, status) = request(address, "GET", "/v1/policy/bundles", None).unwrap();
    assert_eq!(code, 200, "{status}");
    status
}

/// Polls `GET /v1/policy/bundles` until `holds` accepts the answer, and returns it.
#[track_caller]
pub(crate) fn wait_until(address: &str, holds: impl Fn(&Value) -> bool) -> Value {
    poll(|| status(address), holds)
}

/// Waits until this bundle is active and the policy has no fault; returns the answer of `GET /v1/policy/bundles`.
#[track_caller]
pub(crate) fn wait_until_active(address: &str, bundle: &BundleFiles) -> Value {
    let hash = hash(bundle);
    wait_until(address, |status| {
        status["active"]["bundle_hash"] == hash.as_str() && status["fault"].is_null()
    })
}
