//! Keys that sign bundles: an Ed25519 seed in a file that only its owner can read.

use crate::bundle::Error;
use ed25519_dalek::SigningKey;
use gateway_domain::dsse::key_id;
use gateway_domain::ids::Hex32;
use gateway_policy::TrustPolicy;
use gateway_policy::bundle::DEVELOPMENT_ROLE;
use gateway_seal::key_file::{self, Content};
use gateway_service::output::{Lines, ToLines};
use serde::{Deserialize, Serialize};
use std::path::Path;
use zeroize::Zeroizing;

const WARNING: &str = "PRIVATE. Anyone who has this file can sign bundles in your name.";

/// A signing key and its public half.
#[derive(Debug)]
pub(crate) struct Key {
    /// The private half. It is zeroised on drop, and `Debug` does not show it.
    pub(crate) signing: SigningKey,
    pub(crate) public: PublicKey,
}

/// A public key as trust roots and reviewers name it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PublicKey {
    /// The key's id, the first half of its hash. The names of its signature files have it.
    pub(crate) key_id: String,
    /// 64 hexadecimal digits, for the trust roots.
    pub(crate) public_key: Hex32,
}

impl ToLines for PublicKey {
    fn add_to(&self, lines: &mut Lines) {
        lines.add(format_args!("public key  {}", self.public_key));
        lines.add(format_args!("key id      {}", self.key_id));
    }
}

/// The key file. Fields borrow from its bytes, so that the seed is not copied.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile<'a> {
    #[serde(rename = "warning")]
    _warning: Option<&'a str>,
    /// Set in the committed development key only.
    role: Option<&'a str>,
    public_key: Hex32,
    private_seed: &'a str,
}

/// Creates a key, and a file for it at `path` with mode 0600.
pub(crate) fn create(path: &Path) -> Result<PublicKey, Error> {
    if path.exists() {
        return Err(Error::Exists(path.to_owned()));
    }
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut_slice()).map_err(|_| Error::NoRandomness)?;
    let public_key = Hex32::new(SigningKey::from_bytes(&seed).verifying_key().to_bytes());
    let digits = Zeroizing::new(hex::encode(seed.as_slice()));
    // Allocated once: a reallocation would leave a copy of the seed in memory.
    let mut text = Zeroizing::new(String::with_capacity(512));
    for part in ["{\n  \"warning\": \"", WARNING, "\",\n  \"public_key\": \"", &public_key.to_string()] {
        text.push_str(part);
    }
    for part in ["\",\n  \"private_seed\": \"", &digits, "\"\n}\n"] {
        text.push_str(part);
    }
    key_file::create(path, text.as_bytes())?;
    Ok(public(public_key))
}

/// Loads the key in the file at `path`. Only its owner may read the file, unless it is the development key, which is public.
pub(crate) fn load(path: &Path) -> Result<Key, Error> {
    let Content { bytes, private } = key_file::read_any_mode(path)?;
    let fault = |fault: String| Error::KeyFormat { path: path.to_owned(), fault };
    let file: KeyFile<'_> = serde_json::from_slice(&bytes)
        .map_err(|error| fault(format!("line {}, column {}", error.line(), error.column())))?;
    if file.role != Some(DEVELOPMENT_ROLE) {
        private?;
    }
    let mut seed = Zeroizing::new([0; 32]);
    hex::decode_to_slice(file.private_seed, seed.as_mut_slice())
        .map_err(|_| fault("the private seed is not 64 hexadecimal characters".into()))?;
    let signing = SigningKey::from_bytes(&seed);
    if signing.verifying_key().as_bytes() != file.public_key.as_bytes() {
        return Err(Error::KeyMismatch(path.to_owned()));
    }
    Ok(Key { signing, public: public(file.public_key) })
}

/// Writes trust roots that trust only `key`, in `role`.
pub(crate) fn write_roots(path: &Path, role: &str, key: &PublicKey) -> Result<(), Error> {
    if path.exists() {
        return Err(Error::Exists(path.to_owned()));
    }
    let bytes = crate::bundle::layout::pretty_json(&TrustPolicy::of_one(role, key.public_key), path)?;
    crate::bundle::layout::write(path, &bytes)
}

fn public(public_key: Hex32) -> PublicKey {
    PublicKey { key_id: key_id(public_key.as_bytes()), public_key }
}
