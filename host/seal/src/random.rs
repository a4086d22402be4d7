//! Randomness from the operating system. A failure is an error and not a panic.

use crate::hash::TaggedHash;
use hpke::rand_core::{TryCryptoRng, TryRng};
use std::convert::Infallible;
use zeroize::Zeroizing;

/// The operating system provided no randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system provided no randomness")]
pub struct NoRandomness;

/// Fresh random bytes.
pub(crate) fn draw<const N: usize>() -> Result<Zeroizing<[u8; N]>, NoRandomness> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice()).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

/// The random generator for HPKE's ephemeral key: block i is `H("gateway/seal/stream/v1", seed, i)`. It cannot fail, whereas
/// the `hpke` crate panics if the operating system provides no randomness.
pub(crate) struct Stream {
    seed: Zeroizing<[u8; 32]>,
    block: u64,
}

impl Stream {
    /// A stream from a seed that must not be used for any other stream.
    pub(crate) fn new(seed: Zeroizing<[u8; 32]>) -> Self {
        Self { seed, block: 0 }
    }
}

impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_be_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(32) {
            let hash =
                TaggedHash::new("gateway/seal/stream/v1").bytes(self.seed.as_slice()).number(self.block);
            let block = Zeroizing::new(hash.finish());
            chunk.iter_mut().zip(block.iter()).for_each(|(to, from)| *to = *from);
            self.block += 1;
        }
        Ok(())
    }
}

impl TryCryptoRng for Stream {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_is_determined_by_its_seed_and_its_blocks_differ() {
        let stream = |seed| Stream::new(Zeroizing::new([seed; 32]));
        let (mut long, mut other) = ([0; 100], [0; 100]);
        stream(1).try_fill_bytes(&mut long).unwrap();
        stream(2).try_fill_bytes(&mut other).unwrap();
        assert_ne!(long, other);
        let mut blocks: Vec<_> = long.chunks(32).chain(other.chunks(32)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), 8);
        stream(1).try_fill_bytes(&mut other).unwrap();
        assert_eq!(long, other);
        assert_ne!(*draw::<32>().unwrap(), *draw::<32>().unwrap());
    }
}
