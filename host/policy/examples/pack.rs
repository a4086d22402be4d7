//! Completes and signs a bundle in place:
//!
//! ```sh
//! policy-guest/build.sh
//! cp policy-guest/target/wasm32-unknown-unknown/release/payment_guard_component.wasm bundles/payment-guard/policy.wasm
//! cargo run -p gateway-policy --example pack -- bundles/payment-guard bundles/development-signing-key.json
//! ```
//!
//! With a key file that does not exist, a new development key is made there first, and the trust roots beside it.

#![expect(clippy::print_stdout, reason = "a command-line tool")]

use ed25519_dalek::SigningKey;
use gateway_policy::bundle::{DEVELOPMENT_ROLE, MANIFEST_FILE, Role, pack};
use gateway_policy::{Bundle, BundleFiles, Evaluator, Pins, PolicyEngine, TrustPolicy};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

#[derive(Serialize, Deserialize)]
struct KeyFile {
    warning: String,
    role: String,
    public_key: gateway_domain::ids::Hex32,
    private_seed: gateway_domain::ids::Hex32,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, key_file] = arguments.as_slice() else {
        return Err("usage: pack <bundle folder> <key file>".into());
    };
    let (folder, key_file) = (Path::new(folder), Path::new(key_file));
    if !key_file.exists() {
        make_key(key_file)?;
    }
    let key: KeyFile = serde_json::from_slice(&fs::read(key_file)?)?;
    let signing = SigningKey::from_bytes(key.private_seed.as_bytes());

    let engine = PolicyEngine::new()?;
    let files = pack::complete(&engine, &BundleFiles::read(folder)?)?;
    fs::write(folder.join(MANIFEST_FILE), files.get(MANIFEST_FILE)?)?;
    let signatures = folder.join("signatures");
    if signatures.exists() && !files.iter().any(|(name, _)| name.starts_with("signatures/")) {
        fs::remove_dir_all(&signatures)?;
    }
    fs::create_dir_all(&signatures)?;
    let (name, envelope) = pack::sign(&files, &signing)?;
    fs::write(folder.join(&name), envelope)?;

    let trust = trust_in(key.role, key.public_key);
    let now = gateway_domain::time::EpochMs(files_valid_at(&files)?);
    let bundle = Bundle::verify(BundleFiles::read(folder)?, &trust, &Pins::default(), now)?;
    let evaluator = Evaluator::load(&engine, &bundle)?;
    println!("bundle_hash {}", evaluator.bundle_hash());
    println!("signed by   {}", bundle.signers().join(" "));
    Ok(())
}

/// An instant at which the bundle is valid, to try it whatever the clock says.
fn files_valid_at(files: &BundleFiles) -> Result<u64, Box<dyn Error>> {
    let manifest = gateway_policy::bundle::Manifest::parse(files.get(MANIFEST_FILE)?)?;
    Ok(manifest.not_before_ms.unwrap_or(0))
}

fn trust_in(role: String, key: gateway_domain::ids::Hex32) -> TrustPolicy {
    TrustPolicy { roles: vec![Role { role, threshold: 1, keys: [key].into() }], revoked: BTreeSet::new() }
}

fn make_key(key_file: &Path) -> Result<(), Box<dyn Error>> {
    let seed: [u8; 32] = random()?;
    let public_key =
        gateway_domain::ids::Hex32::new(SigningKey::from_bytes(&seed).verifying_key().to_bytes());
    let key = KeyFile {
        warning: "DEVELOPMENT ONLY. This private key is public. Trusting it lets anybody write your policy."
            .into(),
        role: DEVELOPMENT_ROLE.into(),
        public_key,
        private_seed: gateway_domain::ids::Hex32::new(seed),
    };
    fs::write(key_file, serde_json::to_string_pretty(&key)? + "\n")?;
    let trust = trust_in(key.role, public_key);
    fs::write(
        key_file.with_file_name("trust-development.json"),
        serde_json::to_string_pretty(&trust)? + "\n",
    )?;
    Ok(())
}

fn random() -> std::io::Result<[u8; 32]> {
    use std::io::Read;
    let mut bytes = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
