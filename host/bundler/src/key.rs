//! Keys that sign bundles: an Ed25519 seed in a file, readable by its owner alone.

use crate::Error;
use ed25519_dalek::SigningKey;
use gateway_domain::dsse::key_id;
use gateway_domain::ids::Hex32;
use gateway_policy::TrustPolicy;
use gateway_policy::bundle::DEVELOPMENT_ROLE;
use gateway_seal::key_file::{self, Content};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

const WARNING: &str = "PRIVATE. Whoever has this file signs bundles in your name.";

/// A key that may sign, and what is public of it.
#[derive(Debug)]
pub struct Key {
    /// The private half; it is cleared when it goes, and does not show itself.
    pub(crate) signing: SigningKey,
    /// What others may know.
    pub public: PublicKey,
}

/// A key as a reviewer and a trust policy name it.
#[derive(Clone, Debug, Serialize)]
pub struct PublicKey {
    /// The first half of a hash of the key: the name of its signature files.
    pub key_id: String,
    /// Hexadecimal, for the trust roots.
    pub public_key: Hex32,
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "public key  {}", self.public_key)?;
        writeln!(f, "key id      {}", self.key_id)
    }
}

/// The file. Fields borrow from its bytes, so that the seed is nowhere but there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile<'a> {
    #[serde(rename = "warning")]
    _warning: Option<&'a str>,
    /// Only the committed development key says one.
    role: Option<&'a str>,
    public_key: Hex32,
    private_seed: &'a str,
}

/// Makes a key at `path`, mode 0600.
///
/// # Errors
/// [`Error::Exists`], [`Error::NoRandomness`], or [`Error::KeyFile`] when it cannot be written.
pub fn make(path: &Path) -> Result<PublicKey, Error> {
    if path.exists() {
        return Err(Error::Exists(path.to_owned()));
    }
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut_slice()).map_err(|_| Error::NoRandomness)?;
    let public_key = Hex32::new(SigningKey::from_bytes(&seed).verifying_key().to_bytes());
    let digits = Zeroizing::new(hex::encode(seed.as_slice()));
    // Room for all of it at once: growing would leave a copy of the seed behind.
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

/// The key in the file at `path`. Its mode must keep others out, unless it is a development key: that one is public.
///
/// # Errors
/// [`Error::KeyFormat`], [`Error::KeyMismatch`], [`Error::KeyFile`].
pub fn load(path: &Path) -> Result<Key, Error> {
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

/// Trust roots that believe `key` alone, in `role`: enough to try a bundle, and a draft of a deployment's own.
///
/// # Errors
/// [`Error::Exists`], [`Error::Write`].
pub fn write_roots(path: PathBuf, role: &str, key: &PublicKey) -> Result<(), Error> {
    if path.exists() {
        return Err(Error::Exists(path));
    }
    let bytes = crate::layout::pretty(&TrustPolicy::of_one(role, key.public_key), &path)?;
    crate::layout::write(&path, &bytes)
}

fn public(public_key: Hex32) -> PublicKey {
    PublicKey { key_id: key_id(public_key.as_bytes()), public_key }
}
