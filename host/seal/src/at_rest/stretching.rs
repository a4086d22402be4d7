//! Key derivation from a passphrase with Argon2id (RFC 9106).

use crate::limits::{
    MEMORY_KIB_MAX, MEMORY_KIB_MIN, PASSES_MAX, PASSES_MIN, PASSPHRASE_BYTES_MAX, PASSPHRASE_BYTES_MIN,
};
use crate::random::{NoRandomness, draw};
use crate::text::hex_array;
use argon2::{Algorithm, Argon2, Block, Params, Version};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Lanes of Argon2id. More than one would only help with threads.
const LANES: u32 = 1;

/// The parameters of the derivation, stored as JSON. Not secret, but they determine the cost of a guess: values below the
/// defaults are rejected when read, so that stored parameters cannot be weakened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Stretching {
    // INVARIANT: within the limits; kept by `TryFrom<Written>`.
    memory_kib: u32,
    passes: u32,
    salt: [u8; 16],
}

/// Why a passphrase cannot be stretched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StretchingError {
    /// The passphrase is too short or too long.
    #[error("the passphrase has {0} bytes; it must have {PASSPHRASE_BYTES_MIN} to {PASSPHRASE_BYTES_MAX}")]
    PassphraseLength(usize),
    /// The parameters are not for Argon2id version 1.3 with one lane.
    #[error("the stretching function must be `argon2id-1.3` with one lane")]
    Function,
    /// The memory is out of limits.
    #[error("stretching must use {MEMORY_KIB_MIN} to {MEMORY_KIB_MAX} KiB of memory, not {0}")]
    Memory(u32),
    /// The passes are out of limits.
    #[error("stretching must use {PASSES_MIN} to {PASSES_MAX} passes, not {0}")]
    Passes(u32),
    /// The library rejected the parameters, which [`limits`](crate::limits) exclude.
    #[error("argon2 rejected its parameters")]
    Refused,
    /// The operating system provided no randomness for the salt.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// The parameters in JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    function: String,
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    #[serde(with = "hex_array")]
    salt: [u8; 16],
}

impl Stretching {
    /// The defaults, with a salt from the operating system's randomness.
    ///
    /// # Errors
    /// [`StretchingError::NoRandomness`].
    pub fn fresh() -> Result<Self, StretchingError> {
        Ok(Self { memory_kib: MEMORY_KIB_MIN, passes: PASSES_MIN, salt: *draw()? })
    }

    pub(super) fn stretch(&self, passphrase: &str) -> Result<Zeroizing<[u8; 32]>, StretchingError> {
        let length = passphrase.len();
        if !(PASSPHRASE_BYTES_MIN..=PASSPHRASE_BYTES_MAX).contains(&length) {
            return Err(StretchingError::PassphraseLength(length));
        }
        let mut key = Zeroizing::new([0; 32]);
        let params = Params::new(self.memory_kib, self.passes, LANES, Some(key.len()))
            .map_err(|_| StretchingError::Refused)?;
        // Allocated here, so that it is wiped: the key follows from its last block.
        let mut blocks = Zeroizing::new(vec![Block::new(); params.block_count()]);
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into_with_memory(
                passphrase.as_bytes(),
                &self.salt,
                key.as_mut_slice(),
                blocks.as_mut_slice(),
            )
            .map_err(|_| StretchingError::Refused)?;
        Ok(key)
    }
}

impl TryFrom<Written> for Stretching {
    type Error = StretchingError;

    fn try_from(written: Written) -> Result<Self, StretchingError> {
        let Written { function, memory_kib, passes, lanes, salt } = written;
        if function != FUNCTION || lanes != LANES {
            return Err(StretchingError::Function);
        }
        if !(MEMORY_KIB_MIN..=MEMORY_KIB_MAX).contains(&memory_kib) {
            return Err(StretchingError::Memory(memory_kib));
        }
        if !(PASSES_MIN..=PASSES_MAX).contains(&passes) {
            return Err(StretchingError::Passes(passes));
        }
        Ok(Self { memory_kib, passes, salt })
    }
}

impl From<Stretching> for Written {
    fn from(stretching: Stretching) -> Self {
        let Stretching { memory_kib, passes, salt } = stretching;
        Self { function: FUNCTION.to_owned(), memory_kib, passes, lanes: LANES, salt }
    }
}

const FUNCTION: &str = "argon2id-1.3";
