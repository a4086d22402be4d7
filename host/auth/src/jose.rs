//! JSON Web Signatures (RFC 7515) under public keys that are JSON Web Keys (RFC 7517), as far as bearer tokens need
//! them: the compact form, five algorithms, and each key with the one algorithm it is for.
//!
//! A token has no say in how it is proved: its `alg` is compared with the key's, and of what its header can name beside
//! (`jwk`, `jku`, `x5c`, `x5u`) nothing is ever looked at.

mod compact;
mod key;
mod key_set;

pub use compact::Compact;
pub use key::{Algorithm, Key, KeyFault};
pub use key_set::{KeySet, KeySetFault};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// base64url without padding, and nothing else: one text for each string of bytes (RFC 7515, section 2).
pub(crate) fn base64url(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}
